// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

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

var errNotRoot = errors.New("only root can change network namespaces and control groups: run lab as root")

// pluginDirs are the directories that distributions keep CNI plugins in.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// authorityFiles are the files that distributions keep the certificates of
// public authorities in.
var authorityFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// Need is something of the machine's distribution that a lab needs.
type Need struct {
	// Name says what it is: an executable, or a description.
	Name string
	// Debian and Fedora are the packages it is in.
	Debian, Fedora string

	find func() bool
}

// executable needs an executable in the search path.
func executable(name, debian, fedora string) Need {
	return Need{Name: name, Debian: debian, Fedora: fedora, find: func() bool {
		_, err := exec.LookPath(name)
		return err == nil
	}}
}

// needs returns what clusters need, those with nodes or all others.
func needs(nodes bool) []Need {
	needs := []Need{
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
		Need{
			Name:   "CNI plugins",
			Debian: "containernetworking-plugins",
			Fedora: "containernetworking-plugins",
			find:   func() bool { return pluginDir() != "" },
		},
		Need{
			Name:   "certificates of public authorities",
			Debian: "ca-certificates",
			Fedora: "ca-certificates",
			find:   func() bool { return slices.ContainsFunc(authorityFiles, exists) },
		},
	)
}

// MissingPrerequisites returns what clusters with or without nodes need that
// the machine does not have.
func MissingPrerequisites(nodes bool) []Need {
	return slices.DeleteFunc(needs(nodes), func(n Need) bool { return n.find() })
}

// checkPrerequisites tells what is missing, and where to get it.
func checkPrerequisites(nodes bool) error {
	missing := MissingPrerequisites(nodes)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("this machine lacks %s; install it with\n"+
		"  Debian, Ubuntu: lab prerequisites --install-packages, or apt-get install %s\n"+
		"  Fedora:         dnf install %s\n"+
		"elsewhere, with the packages of the same programs",
		strings.Join(names(missing), ", "),
		strings.Join(packages(missing, Need.debian), " "),
		strings.Join(packages(missing, Need.fedora), " "))
}

// InstallPrerequisites installs the packages that are missing, if the machine
// has apt-get, whose output it shows. Elsewhere it tells what is missing.
func InstallPrerequisites(ctx context.Context, nodes bool, output io.Writer) error {
	missing := MissingPrerequisites(nodes)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return checkPrerequisites(nodes)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can install packages: %w", checkPrerequisites(nodes))
	}
	for _, arguments := range aptCommands(packages(missing, Need.debian)) {
		progress("apt-get %s", strings.Join(arguments, " "))
		cmd := exec.CommandContext(ctx, "apt-get", arguments...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout = output
		cmd.Stderr = output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", strings.Join(arguments, " "), err)
		}
	}
	return checkPrerequisites(nodes)
}

// aptCommands returns the arguments of the calls of apt-get that install
// packages. A machine may have no lists of packages yet, and may be about to
// install something itself, which is waited for.
func aptCommands(packages []string) [][]string {
	const wait = "--option=DPkg::Lock::Timeout=300"
	install := []string{wait, "install", "--yes", "--no-install-recommends"}
	return [][]string{{wait, "update"}, append(install, packages...)}
}

func (n Need) debian() string { return n.Debian }

func (n Need) fedora() string { return n.Fedora }

func names(needs []Need) []string {
	names := make([]string, len(needs))
	for i, n := range needs {
		names[i] = n.Name
	}
	return names
}

// packages returns the packages that needs are in, in one distribution.
func packages(needs []Need, in func(Need) string) []string {
	packages := make([]string, len(needs))
	for i, n := range needs {
		packages[i] = in(n)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// pluginDir returns the directory with the CNI plugins, or nothing if there is
// none.
func pluginDir() string {
	for _, dir := range pluginDirs {
		if exists(filepath.Join(dir, "ptp")) {
			return dir
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
