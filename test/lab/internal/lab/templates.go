// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"

	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/storage"
)

// pauseImage is the image that holds the namespaces of a pod open.
const pauseImage = "lab/pause:1"

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(templateFiles, "templates/*"))

// nodeFiles are the files, by their place in the cluster's directory, that the
// daemons of a node read, and the templates they are made from.
var nodeFiles = map[string]string{
	"containerd.toml":     "containerd.toml",
	"cni/10-lab.conflist": "cni.conflist",
	"kubelet.yaml":        "kubelet.yaml",
	"kube-proxy.yaml":     "kube-proxy.yaml",
	"Corefile":            "Corefile",
	"resolv.conf":         "resolv.conf",
	"addons.yaml":         "addons.yaml",
}

// parameters are what the templates refer to.
type parameters struct {
	Dir        string
	Network    string
	Group      string
	Node       string
	NodeIP     netip.Addr
	PodCIDR    netip.Prefix
	DNSIP      netip.Addr
	Domain     string
	PauseImage string
	PluginDir  string
	// Provisioner and ProvisionerUser are what makes volumes, and its user.
	Provisioner, ProvisionerUser string
}

func (n node) parameters() parameters {
	c := n.cluster
	return parameters{
		Dir:        c.path(),
		Network:    c.namespace().Name,
		Group:      c.group(),
		Node:       c.node(),
		NodeIP:     c.address().Addr(),
		PodCIDR:    c.podCIDR(),
		DNSIP:      c.dnsIP(),
		Domain:     clusterDomain,
		PauseImage: pauseImage,
		PluginDir:  machine.PluginDir(),

		Provisioner:     storage.Provisioner,
		ProvisionerUser: provisionerUser,
	}
}

// writeFiles writes what the daemons of the node read.
func (n node) writeFiles() error {
	parameters := n.parameters()
	for path, name := range nodeFiles {
		var content bytes.Buffer
		if err := templates.ExecuteTemplate(&content, name, parameters); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := writeIfChanged(n.cluster.path(path), content.Bytes()); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// writeIfChanged writes a file unless it has the content already, because some
// daemons end when their files are touched.
func writeIfChanged(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
