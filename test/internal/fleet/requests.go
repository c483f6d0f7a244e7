// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Requests counts what an API server was asked for.
type Requests struct {
	All    float64 `json:"all"`
	Writes float64 `json:"writes"`
	// CPUSeconds is the CPU time of the API server.
	CPUSeconds float64 `json:"cpuSeconds"`
	// ByKind counts them by verb and resource.
	ByKind map[string]float64 `json:"byKind"`
}

// Minus returns what was asked for since o was counted.
func (r Requests) Minus(o Requests) Requests {
	kinds := maps.Clone(r.ByKind)
	for kind, count := range o.ByKind {
		kinds[kind] -= count
	}
	return Requests{All: r.All - o.All, Writes: r.Writes - o.Writes, CPUSeconds: r.CPUSeconds - o.CPUSeconds, ByKind: kinds}
}

var (
	requestTotal = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	cpuTotal     = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)
	labelValue   = regexp.MustCompile(`(resource|subresource|verb|group)="([^"]*)"`)
)

// CountRequests reads the counters of an API server. Watches that go on are
// not in them.
func CountRequests(ctx context.Context, client kubernetes.Interface) (Requests, error) {
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return Requests{}, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	count := Requests{ByKind: map[string]float64{}}
	if match := cpuTotal.FindSubmatch(text); match != nil {
		if count.CPUSeconds, err = strconv.ParseFloat(string(match[1]), 64); err != nil {
			return Requests{}, fmt.Errorf("reading %q: %w", match[0], err)
		}
	}
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
		count.ByKind[kindOf(labels)] += value
		for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"} {
			if strings.Contains(labels, `verb="`+verb+`"`) && !strings.Contains(labels, "reviews") { // which are questions
				count.Writes += value
			}
		}
	}
	return count, nil
}

// kindOf returns the verb and the resource in the labels of a counter.
func kindOf(labels string) string {
	found := map[string]string{}
	for _, match := range labelValue.FindAllStringSubmatch(labels, -1) {
		found[match[1]] = match[2]
	}
	kind := found["verb"] + " " + found["resource"]
	if found["subresource"] != "" {
		kind += "/" + found["subresource"]
	}
	return kind
}
