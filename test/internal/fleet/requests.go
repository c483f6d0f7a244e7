// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Requests counts what an API server was asked for.
type Requests struct {
	All    float64 `json:"all"`
	Writes float64 `json:"writes"`
}

func (r Requests) Minus(o Requests) Requests {
	return Requests{All: r.All - o.All, Writes: r.Writes - o.Writes}
}

var requestTotal = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// CountRequests reads the counters of an API server. Watches that go on are
// not in them.
func CountRequests(ctx context.Context, client kubernetes.Interface) (Requests, error) {
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return Requests{}, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	var count Requests
	for line := range strings.SplitSeq(string(text), "\n") {
		match := requestTotal.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return Requests{}, fmt.Errorf("reading %q: %w", line, err)
		}
		labels := match[1]
		if strings.Contains(labels, `,resource=""`) { // health, metrics and discovery
			continue
		}
		count.All += value
		for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"} {
			if strings.Contains(labels, `verb="`+verb+`"`) && !strings.Contains(labels, "accessreviews") && !strings.Contains(labels, "tokenreviews") {
				count.Writes += value
			}
		}
	}
	return count, nil
}
