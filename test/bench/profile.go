// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// profile has the CPU profile of an API server for the time, in dir. The
// caller goes on meanwhile and calls the function that is returned to wait.
func profile(ctx context.Context, client kubernetes.Interface, dir, name string, d time.Duration) func() error {
	if dir == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		raw, err := client.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(int(d.Seconds()))).Timeout(d + time.Minute).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o600)
		}
		done <- err
	}()
	return func() error { return <-done }
}

// writeKinds writes what an API server was asked for, per cluster, the most
// frequent first.
func writeKinds(r fleet.Requests, clusters int, dir, name string) error {
	if dir == "" {
		return nil
	}
	kinds := slices.SortedFunc(maps.Keys(r.ByKind), func(a, b string) int {
		if r.ByKind[a] != r.ByKind[b] {
			return int(r.ByKind[b] - r.ByKind[a])
		}
		return strings.Compare(a, b)
	})
	var text strings.Builder
	for _, kind := range kinds {
		if r.ByKind[kind] > 0 {
			fmt.Fprintf(&text, "%8.2f %s\n", r.ByKind[kind]/float64(clusters), kind)
		}
	}
	return os.WriteFile(filepath.Join(dir, name+".requests"), []byte(text.String()), 0o600)
}
