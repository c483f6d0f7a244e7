// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"fmt"
)

// Brief says in few words what the status of an object is, as far as it is of a
// usual shape.
func Brief(raw json.RawMessage) string {
	var status struct {
		Phase                               string
		Replicas, ReadyReplicas             *int64
		DesiredNumberScheduled, NumberReady *int64
		Active, Succeeded, Failed           *int64
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return ""
	}
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	switch {
	case status.Phase != "":
		return status.Phase
	case status.DesiredNumberScheduled != nil:
		return fmt.Sprintf("%d/%d ready", value(status.NumberReady), *status.DesiredNumberScheduled)
	case status.Replicas != nil:
		return fmt.Sprintf("%d/%d ready", value(status.ReadyReplicas), *status.Replicas)
	case status.Active != nil || status.Succeeded != nil || status.Failed != nil:
		return fmt.Sprintf("%d active, %d succeeded, %d failed", value(status.Active), value(status.Succeeded), value(status.Failed))
	default:
		return ""
	}
}
