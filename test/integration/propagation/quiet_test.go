// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"

	"github.com/capstan-io/capstan/internal/testing/outage"
)

// writesTo counts what is written to servers, and tells the last of it.
func writesTo(servers ...*outage.WrappedServer) func() string {
	return func() string {
		var all []string
		for _, server := range servers {
			all = append(all, fmt.Sprintf("%d, the last of them %s,", server.WriteCount(), server.LastWrite()))
		}
		return fmt.Sprint(all)
	}
}
