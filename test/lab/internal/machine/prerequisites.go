// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine knows what a lab needs of the machine that it runs on: programs
// of its distribution, and limits of its kernel.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotRoot says that the lab needs root.
var ErrNotRoot = errors.New("only root can change network namespaces and control groups: run lab as root")

// pluginDirs are the directories that distributions keep CNI plugins in.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// authorityFiles are the files that distributions keep the certificates of
// public authorities in.
var authorityFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// need is something of the machine's distribution that a lab needs.
type need struct {
	// name says what it is: an executable, or a description.
	name string
	// debian and fedora are the packages it is in.
	debian, fedora string
	// find reports whether the machine has it.
	find func() bool
}

// executable needs an executable in the search path.
func executable(name, debian, fedora string) need {
	return need{name: name, debian: debian, fedora: fedora, find: func() bool {
		_, err := exec.LookPath(name)
		return err == nil
	}}
}

// needs returns what clusters need, those with nodes or all others.
func needs(nodes bool) []need {
	needs := []need{
		executable("ip", "iproute2", "iproute"),
		executable("iptables", "iptables", "iptables-nft"),
	}
	if !nodes {
		return needs
	}
	return append(needs,
		executable("containerd", "containerd", "containerd"),
		executable("ctr", "containerd", "containerd"),
		executable("runc", "runc", "runc"),
		executable("mount", "mount", "util-linux"),
		need{
			name:   "CNI plugins",
			debian: "containernetworking-plugins",
			fedora: "containernetworking-plugins",
			find:   func() bool { return PluginDir() != "" },
		},
		need{
			name:   "certificates of public authorities",
			debian: "ca-certificates",
			fedora: "ca-certificates",
			find:   func() bool { return slices.ContainsFunc(authorityFiles, Exists) },
		},
	)
}

// missingPrerequisites returns what clusters with or without nodes need that
// the machine does not have.
func missingPrerequisites(nodes bool) []need {
	return slices.DeleteFunc(needs(nodes), func(n need) bool { return n.find() })
}

// CheckPrerequisites tells what is missing, and where to get it.
func CheckPrerequisites(nodes bool) error {
	missing := missingPrerequisites(nodes)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("this machine lacks %s; install it with\n"+
		"  Debian, Ubuntu: lab prerequisites --install-packages, or apt-get install %s\n"+
		"  Fedora:         dnf install %s\n"+
		"elsewhere, with the packages of the same programs",
		strings.Join(names(missing), ", "),
		strings.Join(packages(missing, debian), " "),
		strings.Join(packages(missing, fedora), " "))
}

// InstallPrerequisites installs the packages that are missing, if the machine
// has apt-get, whose output goes to output. Elsewhere it tells what is missing.
func InstallPrerequisites(ctx context.Context, nodes bool, output io.Writer) error {
	missing := missingPrerequisites(nodes)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return CheckPrerequisites(nodes)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can install packages: %w", CheckPrerequisites(nodes))
	}
	for _, arguments := range aptCommands(packages(missing, debian)) {
		if _, err := fmt.Fprintln(output, "apt-get", strings.Join(arguments, " ")); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "apt-get", arguments...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout = output
		cmd.Stderr = output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", strings.Join(arguments, " "), err)
		}
	}
	return CheckPrerequisites(nodes)
}

// aptCommands returns the arguments of the calls of apt-get that install
// packages. A machine may have no lists of packages yet, and may be about to
// install something itself, which is waited for.
func aptCommands(packages []string) [][]string {
	const wait = "--option=DPkg::Lock::Timeout=300"
	install := []string{wait, "install", "--yes", "--no-install-recommends"}
	return [][]string{{wait, "update"}, append(install, packages...)}
}

func debian(n need) string { return n.debian }

func fedora(n need) string { return n.fedora }

func names(needs []need) []string {
	names := make([]string, len(needs))
	for i, n := range needs {
		names[i] = n.name
	}
	return names
}

// packages returns the packages that needs are in, in one distribution.
func packages(needs []need, in func(need) string) []string {
	packages := make([]string, len(needs))
	for i, n := range needs {
		packages[i] = in(n)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// PluginDir returns the directory with the CNI plugins, or nothing if there is
// none.
func PluginDir() string {
	for _, dir := range pluginDirs {
		if Exists(filepath.Join(dir, "ptp")) {
			return dir
		}
	}
	return ""
}

// Exists reports whether there is a file of this path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
