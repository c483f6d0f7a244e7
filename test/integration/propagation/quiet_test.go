// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"

	"github.com/capstan-io/capstan/internal/testing/outage"
)

// writesTo counts what is written to servers.
func writesTo(servers ...*outage.WrappedServer) func() string {
	return func() string {
		var all []int
		for _, server := range servers {
			all = append(all, server.WriteCount())
		}
		return fmt.Sprint(all)
	}
}
