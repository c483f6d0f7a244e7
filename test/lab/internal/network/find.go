// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// linkDir is where the kernel shows the host's interfaces.
const linkDir = "/sys/class/net"

// FindNamespaces lists the namespaces whose names begin with a prefix.
func FindNamespaces(prefix string) ([]string, error) {
	return findNames(namespaceDir, prefix)
}

// FindLinks lists the host's interfaces whose names begin with a prefix.
func FindLinks(prefix string) ([]string, error) {
	return findNames(linkDir, prefix)
}

// FindRules lists the rules of the host's firewall that name a bridge. A host
// without iptables has none.
func FindRules(bridge string) ([]string, error) {
	program, err := exec.LookPath("iptables")
	if err != nil {
		return nil, nil //nolint:nilerr // there are no rules then
	}
	output, err := exec.Command(program, "-w", "-S").Output()
	if err != nil {
		return nil, fmt.Errorf("list firewall rules: %w", err)
	}
	var rules []string
	for rule := range strings.Lines(string(output)) {
		if strings.Contains(rule, bridge) {
			rules = append(rules, strings.TrimSpace(rule))
		}
	}
	return rules, nil
}

func findNames(dir, prefix string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	return names, nil
}
