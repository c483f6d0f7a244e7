// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
)

var (
	allModes    = flag.Bool("all-modes", false, "TestManifests runs in all modes, and not only in Pull and Push")
	withKubectl = flag.Bool("kubectl", false, "TestManifests brings manifests by kubectl, and not by an API client")
)

// way is how manifests come to a member.
type way string

const (
	byWork   way = "by work"
	byPolicy way = "by policy"
)

// manifestRow is a line of the table: what somebody means, and changes at least twice. What is
// right is what the API server of the member makes of the same manifests when they are sent to
// it by POST and then by PUT: in the member, each object has a twin that the administrator
// writes, and both have to be equal.
type manifestRow struct {
	name string
	// steps are what is meant at first, and after each change.
	steps []manifestStep
	// twins is in the member before, and there is one for the twins, too. Ours is there only for
	// the objects of the row, as kubectl apply has left it.
	twins, ours string
	// onHub is on the hub before templates are.
	onHub string
	// taken is called when the templates are on the hub and no policy is yet.
	taken func(*rowScene)
	// generated are fields that the API server makes at POST, and wants back at PUT.
	generated []string
	// allocated are fields that the member gives each object of its own, unless the manifest
	// has port PORT.
	allocated []string
	// writesPort tells apart the rows that use PORT, of which there can be two.
	writesPort int
	// policy is the spec of the policy without its selectors; empty for the cluster alone.
	policy string
	// replaces is why kubectl has to replace templates: the API server of the hub does not take
	// for the same what kubectl applies.
	replaces string
	// ends is called after the last step.
	ends func(*rowScene)
	// run is there in place of steps for what no object of a member can show.
	run func(*rowScene)
	// without has, for each way that could show nothing, the reason.
	without map[way]string
}

// manifestStep is what is meant at a time.
type manifestStep struct {
	// manifests are one object a line. NS is the namespace of the row, CLUSTER the name of the
	// cluster, NEXT that of another one, and PORT a number for a Service.
	manifests []string
	// right are the manifests that make the twins if it is not these, and why.
	right []string
	why   string
	// recreated is for what no PUT changes: the twins are deleted and created, and so are
	// templates on the hub. After any other step, our objects have to be those that they were.
	recreated bool
	// says are parts of what the condition Applied of the first manifest says; allow is what the
	// administrator of the member does about it.
	says  []string
	allow func(*rowScene)
	// drift is a patch of our first object that has to be undone, others one of both that stays.
	drift, others string
}

// testCases returns a case for each row and way.
func (r manifestRow) testCases() []testCase {
	var list []testCase
	for _, by := range []way{byWork, byPolicy} {
		c := testCase{name: r.name + ", " + string(by), run: func(s *scene) { newRowScene(s, r, by).play() }}
		if reason := r.without[by]; reason != "" {
			c.without = map[mode]string{}
			for _, m := range modes() {
				c.without[m] = reason
			}
		}
		list = append(list, c)
	}
	return list
}

// TestManifests brings the manifests of the table, and their changes, by ManifestWork and by
// policy.
func TestManifests(t *testing.T) {
	env.Need(t)
	ctrl.SetLogger(logr.Discard())
	list := joining()
	for _, row := range manifestRows() {
		list = append(list, row.testCases()...)
	}
	in := modes()[:2]
	if *allModes {
		in = modes()
	}
	dir := t.TempDir()
	programs := buildPrograms(t, dir)
	results := newTable(in, list)
	defer func() {
		t.Logf("%d rows, in %d modes, brought by %s:\n%s", len(manifestRows()), len(in), theClient(), results)
		if err := results.err(); err != nil {
			t.Error(err)
		}
	}()
	var starting, columns sync.WaitGroup
	members := make([]*column, len(in))
	var theHub *hub
	for i, m := range in {
		starting.Go(func() {
			members[i] = startMember(t, dir, programs, m, "job-controller")
			members[i].member.apply(t, novelty("size: {type: integer}")+"\n---\n"+mayManageNovelties)
		})
	}
	starting.Go(func() {
		theHub = startHub(t, dir, programs, features.Propagation)
		theHub.apply(t, novelty("size: {type: integer}, color: {type: string}"))
	})
	starting.Wait()
	if t.Failed() {
		return
	}
	for _, c := range members {
		if c.hub = theHub; c.pods == nil {
			c.pods = theHub.pods
		}
		columns.Go(func() {
			t.Run(string(c.mode), func(t *testing.T) { c.run(t, results, list) })
		})
	}
	columns.Wait()
}

// TestEachRowOfManifestsChangesTwice is about the table itself.
func TestEachRowOfManifestsChangesTwice(t *testing.T) {
	for _, row := range manifestRows() {
		if row.run == nil && len(row.steps) < 3 {
			t.Errorf("%s: it has %d steps, want what is meant at first and two changes", row.name, len(row.steps))
		}
		if len(row.without) > 1 {
			t.Errorf("%s: it is in no way: %v", row.name, row.without)
		}
		for i, step := range row.steps {
			if (step.right == nil) != (step.why == "") {
				t.Errorf("%s, step %d: what is right differs from what is sent, or a reason is given, and not both", row.name, i+1)
			}
		}
	}
}

// neighbour is the name of another cluster of the hub.
func (c *column) neighbour() string {
	if c.mode == modePush {
		return strings.ToLower(string(modePull))
	}
	return strings.ToLower(string(modePush))
}

// novelty defines a kind of which the hub and the member know different fields.
func novelty(fields string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: novelties.example.net}, spec: {
  group: example.net, scope: Namespaced, names: {plural: novelties, singular: novelty, kind: Novelty, listKind: NoveltyList},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}]}}`, fields)
}

const mayManageNovelties = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: novelties, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
  rules: [{apiGroups: [example.net], resources: [novelties], verbs: [get, list, watch, create, patch, update, delete]}]}`
