// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package krew writes the manifest by which krew, the manager of kubectl's
// plugins, installs the command line.
package krew

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Plugin is a manifest.
type Plugin struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata has the name under which kubectl finds the plugin.
type Metadata struct {
	Name string `json:"name"`
}

// Spec describes the plugin.
type Spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []Platform `json:"platforms"`
}

// Platform is the archive for a kind of machine.
type Platform struct {
	Selector Selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	// Bin is the executable in the archive; krew links it as kubectl-capstan.
	Bin string `json:"bin"`
}

// Selector tells which machines.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

const (
	homepage    = "https://github.com/capstan-io/capstan"
	short       = "Manage a fleet of clusters from one hub"
	description = `Makes a cluster the hub of a fleet, lets clusters join it, delivers objects to
them, and shows what each of them is waiting for. It speaks the APIs of Open
Cluster Management and Karmada.
`
	caveats = `The plugin talks to the hub of your current context. To make a cluster a hub:
  kubectl capstan init
`
)

// Write writes the manifest for the archives of a release, by platform
// (linux/amd64), which will be at the base address.
func Write(out io.Writer, version, base string, platforms []string, archives map[string]string) error {
	plugin := Plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: Metadata{Name: "capstan"},
		Spec: Spec{Version: "v" + version, Homepage: homepage, ShortDescription: short, Description: description, Caveats: caveats},
	}
	for _, platform := range platforms {
		archive := archives[platform]
		system, architecture, found := strings.Cut(platform, "/")
		if !found {
			return fmt.Errorf("%q is not of the form OS/ARCHITECTURE", platform)
		}
		sum, err := sum(archive)
		if err != nil {
			return err
		}
		bin := "capstan"
		if system == "windows" {
			bin += ".exe"
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, Platform{
			Selector: Selector{MatchLabels: map[string]string{"os": system, "arch": architecture}},
			URI:      strings.TrimSuffix(base, "/") + "/" + filepath.Base(archive),
			SHA256:   sum,
			Bin:      bin,
		})
	}
	content, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}

func sum(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
