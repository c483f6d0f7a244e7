// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd describes the process that keeps the objects of clusters.
package etcd

import (
	"path/filepath"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

// Etcd is a process that keeps objects. It listens on sockets in its directory
// only: so it needs no certificates, and API servers reach it from any network
// namespace.
type Etcd struct {
	Dir       string
	Namespace string
	Group     string
	Log       string
	// Fsync lets it wait until the disk has what it is given, as etcd does in
	// production. Without, what a process has written outlives the process; only a
	// crash of the machine could lose data.
	Fsync bool
}

// The sockets, in the directory that etcd runs in. What follows the colon is
// there because etcd wants every address to have a port.
const (
	clientSocket = "client:0"
	peerSocket   = "peer:0"
)

// URL is where API servers find the etcd.
func (e Etcd) URL() string {
	return "unix://" + filepath.Join(e.Dir, clientSocket)
}

// Daemon describes the process.
func (e Etcd) Daemon(program string) daemon.Spec {
	const client, peer = "unix://" + clientSocket, "unix://" + peerSocket
	args := []string{
		"--data-dir=" + filepath.Join(e.Dir, "data"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
	if !e.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return daemon.Spec{
		Name:      "etcd",
		Program:   program,
		Args:      args,
		Dir:       e.Dir,
		Namespace: e.Namespace,
		Group:     e.Group,
		Log:       e.Log,
	}
}
