// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// kernelLimits are limits of the kernel on what one user may have, which root
// shares among all clusters, and what they must be at least. The kernel's
// defaults suffice for about two nodes.
var kernelLimits = map[string]int{
	"/proc/sys/fs/inotify/max_user_instances": 4096,
	"/proc/sys/fs/inotify/max_user_watches":   524288,
}

// RaiseKernelLimits raises the limits of the kernel that are too low.
func RaiseKernelLimits() error {
	for path, minimum := range kernelLimits {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read kernel limit: %w", err)
		}
		limit, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			return fmt.Errorf("read kernel limit %s: %w", path, err)
		}
		if limit >= minimum {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(minimum)), 0); err != nil {
			return fmt.Errorf("raise kernel limit: %w", err)
		}
	}
	return nil
}
