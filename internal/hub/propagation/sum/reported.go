// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"encoding/json"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/untrusted/nesting"
)

const (
	// valuesMax is how many values a status may have, conditionsMax how many conditions
	// and addressesMax how many addresses of load balancers: those of all clusters are
	// compared with each other. A text of nesting.LevelsMax and valuesMax is small enough to parse.
	valuesMax     = 10_000
	conditionsMax = 64
	addressesMax  = 256
	// unstorable is said of a status that the hub would refuse.
	unstorable = "The status is omitted, because what the cluster reports is not a JSON object, is nested too deeply, or has a number that is too large."
	// oversized is said of a status of more than workv1.StatusSizeMax, which no agent of
	// ours reports.
	oversized = "The status is omitted, because the cluster reports more than 256 KiB."
	// excessive is said of a status that would be too much work.
	excessive = "The status is omitted, and the health is unknown, because the cluster reports more than 10,000 values, 64 conditions or 256 addresses of load balancers."
)

// statusProblem says why the status that a cluster reports is left out of the binding; "" if
// it is not.
func statusProblem(status string) string {
	switch {
	case len(status) > workv1.StatusSizeMax:
		return oversized
	case !nesting.IsStorableObject(status):
		return unstorable
	case !isModerate(status):
		return excessive
	default:
		return ""
	}
}

// saysAnything reports whether a text is JSON and says anything: "null" would be read back as
// nothing, and written again and again. Of a text that is too long only the beginning is
// known.
func saysAnything(text string) bool {
	return len(text) > workv1.StatusSizeMax || strings.TrimSpace(text) != "null" && json.Valid([]byte(text))
}

// isModerate reports whether a status, which can be stored, has so few parts that it can be
// summed up with others.
func isModerate(text string) bool {
	values := nesting.CountValues(text)
	if values <= conditionsMax {
		return true // as nearly all have
	}
	var status map[string]any
	if values > valuesMax || utiljson.Unmarshal([]byte(text), &status) != nil {
		return false
	}
	return len(fields.List(status, "conditions")) <= conditionsMax && len(fields.List(status, "loadBalancer", "ingress")) <= addressesMax
}

// parseHealth returns the verdict of a cluster. One that nobody knows is none.
func parseHealth(text string) workv1alpha2.ResourceHealth {
	switch health := workv1alpha2.ResourceHealth(text); health {
	case workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy:
		return health
	default:
		return workv1alpha2.ResourceUnknown
	}
}

// normalizeStatus returns a status as the hub stores it: without the fields that are null, such
// as lastProbeTime of a Pod. With them it would seem to differ from what is stored, and
// be written at every look.
func normalizeStatus(status string) []byte {
	var content any
	if !strings.Contains(status, "null") || utiljson.Unmarshal([]byte(status), &content) != nil {
		return []byte(status)
	}
	dropNulls(content)
	text, err := json.Marshal(content)
	if err != nil {
		return []byte(status) // not of what was read from JSON
	}
	return text
}

// dropNulls takes the fields out that are null, at any depth.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
			}
			dropNulls(field)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}
