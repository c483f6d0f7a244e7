// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// listObjects prints all objects of a cluster, a line each: kind, namespace, name, UID
// and, of a pod, how often its containers were restarted.
const listObjects = `kinds=$(kubectl --context "$1" api-resources --verbs=list -o name | sort -u | paste -sd,)
kubectl --context "$1" get "$kinds" -A --ignore-not-found --no-headers \
  -o 'custom-columns=:.kind,:.metadata.namespace,:.metadata.name,:.metadata.uid,:.status.containerStatuses[*].restartCount' 2>/dev/null`

// objects are the identities of all objects of a cluster: "Kind namespace name" is what
// they are called, and "UID restarts" what tells them from others of that name.
type objects map[string]string

// objectsOf lists the objects of a cluster that stay until somebody deletes them.
func objectsOf(ts *testscript.TestScript, cluster string) objects {
	// Not by ts.Exec, which prints the list.
	list := exec.CommandContext(context.Background(), "bash", "-euo", "pipefail", "-c", listObjects, "list", cluster)
	list.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	out, err := list.Output()
	if err != nil {
		ts.Fatalf("listing the objects of %s: %v", cluster, err)
	}
	all := objects{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// Kubernetes deletes Events and requests for certificates after an hour, and the
		// kubelet makes the Lease of its node when it gets to it.
		if kind, namespace := fields[0], fields[1]; kind != "Event" && kind != "CertificateSigningRequest" && namespace != "kube-node-lease" {
			all[strings.Join(fields[:3], " ")] = strings.Join(fields[3:], " ")
		}
	}
	return all
}

// memory is the key of the memory among the values of a script: objects by "NAME CLUSTER".
type memory struct{}

// recall returns the memory of the script that runs.
func recall(ts *testscript.TestScript) map[string]objects {
	return ts.Value(memory{}).(map[string]objects) //nolint:forcetypeassert // prepareScript puts it there
}

// remember keeps the objects of clusters for as-before and unharmed, under a name:
// remember NAME CLUSTER....
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: remember NAME CLUSTER...")
	}
	for _, cluster := range args[1:] {
		found := objectsOf(ts, cluster)
		recall(ts)[args[0]+" "+cluster] = found
		ts.Logf("%s has %d objects", cluster, len(found))
	}
}

// forEachRemembered calls a function for clusters, with the objects that they had when
// they were remembered under a name: args are NAME CLUSTER....
func forEachRemembered(ts *testscript.TestScript, neg bool, args []string, f func(cluster string, then objects)) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: NAME CLUSTER... that remember has kept")
	}
	for _, cluster := range args[1:] {
		then, ok := recall(ts)[args[0]+" "+cluster]
		if !ok {
			ts.Fatalf("%s is not remembered as %s", cluster, args[0])
		}
		f(cluster, then)
	}
}

// asBefore waits until clusters have the objects that they had when they were
// remembered, and no other: as-before NAME CLUSTER....
func asBefore(ts *testscript.TestScript, neg bool, args []string) {
	forEachRemembered(ts, neg, args, func(cluster string, then objects) {
		for looks, deadline := 0, time.Now().Add(harness.Patience); ; looks++ {
			now := objectsOf(ts, cluster)
			left, missing := without(now, then), without(then, now)
			if len(left)+len(missing) == 0 {
				return
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%s has %q left, and lacks %q", cluster, left, missing)
			}
			time.Sleep(harness.Pause(looks))
		}
	})
}

// without returns the names of objects that others have not.
func without(some, others objects) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(some)) {
		if _, ok := others[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// unharmed fails the script if an object, but for those of Capstan's own programs, is
// gone, was made anew or, as a pod, has been restarted since its cluster was
// remembered: unharmed NAME CLUSTER....
func unharmed(ts *testscript.TestScript, neg bool, args []string) {
	forEachRemembered(ts, neg, args, func(cluster string, then objects) {
		now := objectsOf(ts, cluster)
		var harmed []string
		for _, name := range slices.Sorted(maps.Keys(then)) {
			if now[name] != then[name] && !ofPrograms(name) {
				harmed = append(harmed, fmt.Sprintf("%s: %q, before %q", name, now[name], then[name]))
			}
		}
		if len(harmed) > 0 {
			ts.Fatalf("on %s these are not what they were:\n%s", cluster, strings.Join(harmed, "\n"))
		}
		ts.Logf("%s: %d objects are what they were", cluster, len(then))
	})
}

// ofPrograms reports whether an object belongs to the programs of Capstan, which an
// upgrade replaces: their pods, and what Kubernetes makes of these.
func ofPrograms(name string) bool {
	fields := strings.Fields(name)
	switch fields[0] {
	case "Pod", "ReplicaSet", "EndpointSlice", "Endpoints", "Lease", "Job", "ControllerRevision", "PodMetrics":
		return harness.Ours.MatchString(fields[1])
	}
	return false
}
