// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os/exec"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

// Exec replaces this process by a command that runs in the network of a
// cluster, and ends with the cluster. It returns only when it fails.
func (l *Lab) Exec(name string, command []string) error {
	clusters, err := l.clusters(name)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("find command: %w", err)
	}
	c := clusters[0]
	return daemon.Become(c.daemonGroup(), c.namespace().Name, program, command)
}
