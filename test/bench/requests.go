// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// requests counts what an API server was asked for.
type requests struct {
	All    float64 `json:"all"`
	Writes float64 `json:"writes"`
}

func (r requests) minus(o requests) requests {
	return requests{All: r.All - o.All, Writes: r.Writes - o.Writes}
}

var requestTotal = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// countRequests reads the counters of an API server. Watches that go on are
// not in them.
func countRequests(ctx context.Context, client kubernetes.Interface) (requests, error) {
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return requests{}, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	var count requests
	for line := range strings.SplitSeq(string(text), "\n") {
		match := requestTotal.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return requests{}, fmt.Errorf("reading %q: %w", line, err)
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
