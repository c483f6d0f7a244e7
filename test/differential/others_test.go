// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// disagreement is what Argo CD says of an object that Capstan does not agree with, and why Capstan does not.
type disagreement struct{ argo, why string }

// TestKindsOfOthersAreJudgedLikeByArgoCD has the objects with which the shipped kinds are tested.
func TestKindsOfOthersAreJudgedLikeByArgoCD(t *testing.T) {
	const (
		runs       = "Healthy is what does what it is for, also while it does it, as Karmada has it; Argo CD waits for the end"
		partition  = "what a partition keeps back is to stay as it is; Argo CD waits for it, or for somebody who removes the partition"
		deployed   = "Argo CD asks whether the operator has deployed the spec, not whether the job runs"
		generation = "Argo CD does not compare observedGeneration with the generation"
		spark      = "it is suspended as its spec says, and Argo CD has no rule for that state"
	)
	known := map[string]disagreement{
		"AdvancedCronJob, observed":                {"Progressing", "a schedule does what it is for by being there, whether a job of it runs or not"},
		"BroadcastJob, it runs":                    {"Progressing", runs},
		"BroadcastJob, pods failed, others do not": {"Progressing", runs},
		"CloneSet, observed":                       {"Suspended", partition},
		"DaemonSet, observed":                      {"Progressing", partition},
		"StatefulSet, observed":                    {"Progressing", partition},
		"StatefulSet, all updated":                 {"Suspended", partition},
		"Workflow, it runs":                        {"Progressing", runs},
		"FlinkDeployment, not observed":            {"Healthy", generation},
		"FlinkDeployment, to be suspended":         {"Healthy", deployed},
		"FlinkDeployment, failed":                  {"Healthy", deployed},
		"FlinkDeployment, not deployed":            {"Healthy", deployed},
		"Policy, an older version":                 {"Progressing", "versions of Kyverno without conditions write status.ready"},
		"SparkApplication, observed":               {"Progressing", "the driver runs with fewer executors than it asks for, as Spark does where there is no room for more"},
		"SparkApplication, suspended":              {"Progressing", spark},
	}
	for _, kind := range []string{"HelmRelease", "Kustomization", "Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"} {
		known[kind+", not observed"] = disagreement{"Healthy", generation}
	}
	unjudged := []string{ // kinds that Argo CD has no check for
		"SidecarSet", "UnitedDeployment", "Job", "MPIJob", "Notebook", "PyTorchJob", "TFJob", "ClusterPolicy", "RayCluster", "RayJob", "RayService",
	}
	argo := startArgo(t)
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		for name, object := range casesOf(t, kind) {
			theirs := argo.status(t, object)
			if has := !slices.Contains(unjudged, kind.Kind); has != (theirs != "") {
				t.Errorf("%s: Argo CD says %q; is it judged: %t", kind, theirs, has)
			}
			ours, err := shipped.BuiltinChain().InterpretHealth(object)
			if err != nil {
				t.Fatal(err)
			}
			agree := theirs == "" || (theirs == "Healthy") == (ours == interpret.Healthy)
			id := kind.Kind + ", " + name
			of, listed := known[id]
			delete(known, id)
			switch {
			case listed && (agree || of.argo != theirs):
				t.Errorf("the disagreement on %q (%s) is another one, or none: Capstan says %s, Argo CD %s", id, of.why, ours, theirs)
			case !listed && !agree:
				t.Errorf("%s: Capstan says %s, Argo CD %s", id, ours, theirs)
			}
		}
	}
	for id := range known {
		t.Errorf("the disagreement on %q is about no case: take it out", id)
	}
}

// casesOf returns the objects of a kind that the tests of package shipped judge, by what they call them.
func casesOf(t *testing.T, kind schema.GroupKind) map[string]*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../internal/interpret/shipped/testdata", kind.Group, kind.Kind, "input.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var input struct {
		Template, Observed                    json.RawMessage
		Clusters, Healthy, Unhealthy, Unknown map[string]json.RawMessage
	}
	if err := yaml.Unmarshal(text, &input); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	first := slices.Min(slices.Collect(maps.Keys(input.Clusters)))
	status := slices.Concat([]byte(`{"status":`), input.Clusters[first], []byte(`}`))
	observed := merged(t, merged(t, input.Template, input.Observed), status)
	cases := map[string]*unstructured.Unstructured{"observed": decoded(t, observed)}
	for _, patches := range []map[string]json.RawMessage{input.Healthy, input.Unhealthy, input.Unknown} {
		for name, patch := range patches {
			cases[name] = decoded(t, merged(t, observed, patch))
		}
	}
	return cases
}

// merged returns an object with a merge patch, if there is one.
func merged(t *testing.T, object, patch json.RawMessage) json.RawMessage {
	t.Helper()
	if patch == nil {
		return object
	}
	object, err := jsonpatch.MergePatch(object, patch)
	if err != nil {
		t.Fatalf("merging %s: %v", patch, err)
	}
	return object
}

func decoded(t *testing.T, text json.RawMessage) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return u
}
