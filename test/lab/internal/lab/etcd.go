// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"path/filepath"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

// etcd is a process that keeps objects. It listens on sockets in its directory
// only: so it needs no certificates, and API servers reach it from any network
// namespace.
type etcd struct {
	dir       string
	namespace string
	group     string
	log       string
}

// sharedEtcd is the etcd of all clusters without a node.
func (l *Lab) sharedEtcd() etcd {
	return etcd{
		dir: filepath.Join(l.dir, "etcd"),
		// No cluster has this name, for it is no DNS label.
		group: filepath.Join(l.group(), "_etcd"),
		log:   filepath.Join(l.dir, "etcd", "etcd.log"),
	}
}

// The sockets, in the directory that etcd runs in. What follows the colon is
// there because etcd wants every address to have a port.
const (
	clientSocket = "client:0"
	peerSocket   = "peer:0"
)

// url is where API servers find the etcd.
func (e etcd) url() string {
	return "unix://" + filepath.Join(e.dir, clientSocket)
}

// daemon describes the process.
func (e etcd) daemon(program string) daemon.Spec {
	const client, peer = "unix://" + clientSocket, "unix://" + peerSocket
	return daemon.Spec{
		Name:    "etcd",
		Program: program,
		Args: []string{
			"--data-dir=" + filepath.Join(e.dir, "data"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--quota-backend-bytes=8589934592",
			// What a process has written outlives the process without it; only
			// a crash of the machine could lose data.
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
		Dir:       e.dir,
		Namespace: e.namespace,
		Group:     e.group,
		Log:       e.log,
	}
}
