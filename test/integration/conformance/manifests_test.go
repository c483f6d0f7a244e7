// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
	"github.com/capstan-io/capstan/test/integration/conformance/twins"
)

var (
	allModes    = flag.Bool("all-modes", false, "TestManifests runs in all modes, and not only in Pull and Push")
	withKubectl = flag.Bool("kubectl", false, "TestManifests brings manifests by kubectl, and not by an API client")
)

// TestManifests brings the manifests of the table, and their changes, by ManifestWork and by
// policy.
func TestManifests(t *testing.T) {
	env.Need(t)
	ctrl.SetLogger(logr.Discard())
	users := twins.PlainClient
	if *withKubectl {
		users = twins.KubectlClient
	}
	list := promises.Joining()
	for _, row := range twins.ManifestRows() {
		list = append(list, row.TestCases(users)...)
	}
	in := installation.JoinModes()[:2]
	if *allModes {
		in = installation.JoinModes()
	}
	at := newSetting(t)
	results := promises.NewTable(in, list)
	defer func() {
		t.Logf("%d rows, in %d modes, brought by %s:\n%s", len(twins.ManifestRows()), len(in), users, results)
		if err := results.Err(); err != nil {
			t.Error(err)
		}
	}()
	var starting, columns sync.WaitGroup
	members := make([]*installation.Column, len(in))
	var theHub *installation.Hub
	for i, m := range in {
		starting.Go(func() {
			members[i] = installation.StartMember(t, at, m, "job-controller")
			members[i].Member.ApplyText(t, novelty("size: {type: integer}")+"\n---\n"+mayManageNovelties)
		})
	}
	starting.Go(func() {
		theHub = installation.StartHub(t, at, features.Propagation)
		theHub.ApplyText(t, novelty("size: {type: integer}, color: {type: string}"))
	})
	starting.Wait()
	if t.Failed() {
		return
	}
	for _, c := range members {
		if c.Hub = theHub; c.Pods == nil {
			c.Pods = theHub.Pods
		}
		columns.Go(func() {
			t.Run(string(c.Mode), func(t *testing.T) { promises.RunColumn(t, c, results, list) })
		})
	}
	columns.Wait()
}

// TestEachRowOfManifestsChangesTwice is about the table itself.
func TestEachRowOfManifestsChangesTwice(t *testing.T) {
	for _, row := range twins.ManifestRows() {
		if row.Run == nil && len(row.Steps) < 3 {
			t.Errorf("%s: it has %d steps, want what is meant at first and two changes", row.Name, len(row.Steps))
		}
		if len(row.Without) > 1 {
			t.Errorf("%s: it is in no way: %v", row.Name, row.Without)
		}
		for i, step := range row.Steps {
			if (step.Right == nil) != (step.Why == "") {
				t.Errorf("%s, step %d: what is right differs from what is sent, or a reason is given, and not both", row.Name, i+1)
			}
		}
	}
}

// novelty defines a kind of which the hub and the member know different fields.
func novelty(fields string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: novelties.example.net}, spec: {
  group: example.net, scope: Namespaced, names: {plural: novelties, singular: novelty, kind: Novelty, listKind: NoveltyList},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}]}}`, fields)
}

const mayManageNovelties = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: novelties, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
  rules: [{apiGroups: [example.net], resources: [novelties], verbs: [get, list, watch, create, patch, update, delete]}]}`
