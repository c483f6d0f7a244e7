// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	sigsyaml "sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/version"
)

func deployment(label, value string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: value}},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "i:1"}}}}},
	}
}

func hubNamed(name string, mode operatorv1.InstallMode) operatorv1.ClusterManager {
	return operatorv1.ClusterManager{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: operatorv1.ClusterManagerSpec{DeployOption: operatorv1.ClusterManagerDeployOption{Mode: mode}},
	}
}

// expect compares an error with a part of its text; empty is no error.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	text := ""
	if err != nil {
		text = exit.FormatError(err)
	}
	if (err == nil) != (want == "") || !strings.Contains(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestHubsAreMadeWhereThereIsNone(t *testing.T) {
	ours, others := deployment(operatorv1.LabelPartOf, operatorv1.PartOfCapstan), deployment("app", "x")
	ofHelm := deployment(operatorv1.LabelPartOf, operatorv1.PartOfCapstan)
	ofHelm.Labels["app.kubernetes.io/managed-by"] = "Helm"
	deleted := hubNamed("cluster-manager", operatorv1.InstallModeDefault)
	deleted.DeletionTimestamp = &metav1.Time{}
	*deleted.DeletionTimestamp = metav1.Now()
	cases := map[string]struct {
		found operatorSituation
		force bool
		want  string // empty if it may be made
	}{
		"nothing is there":                 {found: operatorSituation{}},
		"an earlier try was stopped":       {found: operatorSituation{deployment: ours}},
		"the same release":                 {found: operatorSituation{deployment: ours, release: "1.2.0", hubs: []operatorv1.ClusterManager{hubNamed("cluster-manager", "Default")}}},
		"an older one":                     {found: operatorSituation{deployment: ours, release: "1.1.0"}, want: "capstan upgrade"},
		"a newer one":                      {found: operatorSituation{deployment: ours, release: "1.10.0"}, want: "Use capstan of that release"},
		"somebody else's operator":         {found: operatorSituation{deployment: others}, want: "which Capstan has not installed"},
		"it is to be replaced":             {found: operatorSituation{deployment: others}, force: true},
		"an operator in another namespace": {found: operatorSituation{definition: &metav1.PartialObjectMetadata{}}, want: "which Capstan has not installed"},
		"OLM's":                            {found: operatorSituation{deployment: deployment("olm.owner", "x")}, force: true, want: "installed by OLM"},
		"Helm's":                           {found: operatorSituation{deployment: ofHelm}, force: true, want: "installed by Helm"},
		"a hub of another name":            {found: operatorSituation{deployment: ours, hubs: []operatorv1.ClusterManager{hubNamed("mine", "Default")}}, want: `ClusterManager "mine"`},
		"hubs elsewhere":                   {found: operatorSituation{deployment: ours, hubs: []operatorv1.ClusterManager{hubNamed("mine", "Hosted")}}},
		"a hub that is being removed":      {found: operatorSituation{deployment: ours, hubs: []operatorv1.ClusterManager{deleted}}, want: "is being removed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.found.operator = install.ClusterManagerOperator()
			expect(t, c.found.checkInit(c.force, "1.2.0"), c.want)
		})
	}
}

func TestUpgradesGoForward(t *testing.T) {
	cases := map[string]struct {
		from, to string
		force    bool
		want     string // empty if it may be done
	}{
		"to a newer release":     {from: "1.9.0", to: "1.10.0"},
		"to the same":            {from: "1.9.0", to: "1.9.0"},
		"back":                   {from: "1.10.0", to: "1.9.0", want: "older than what is there: 1.10.0"},
		"back, by force":         {from: "1.10.0", to: "1.9.0", force: true},
		"to what is no release":  {from: "1.10.0", to: ""},
		"from what is not known": {from: "", to: "1.9.0"},
		"to a release candidate": {from: "1.10.0", to: "1.10.0-rc.1", want: "older"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := operatorSituation{operator: install.ClusterManagerOperator(), release: c.from, deployment: deployment(operatorv1.LabelPartOf, operatorv1.PartOfCapstan)}
			expect(t, found.checkUpgrade(c.force, c.to), c.want)
		})
	}
}

func TestReleaseOfAnImageIsItsTag(t *testing.T) {
	for image, want := range map[string]string{
		"":                               version.SemanticVersion(),
		"example.com/capstan:1.2.3":      "1.2.3",
		"example.com/capstan:v1.2.3":     "1.2.3",
		"example.com/capstan:latest":     "",
		"example.com:5000/capstan":       "",
		"example.com/capstan@sha256:1.0": "",
	} {
		if got := targetRelease(image, image); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

func TestHubsAreRemovedOnlyWithoutClusters(t *testing.T) {
	ours := deployment(operatorv1.LabelPartOf, operatorv1.PartOfCapstan)
	cases := map[string]struct {
		found    operatorSituation
		clusters []string
		flags    cleanCommand
		want     string // empty if it may be removed
	}{
		"no clusters":                     {found: operatorSituation{deployment: ours}},
		"clusters":                        {found: operatorSituation{deployment: ours}, clusters: []string{"a", "b"}, want: "2 in all: a, b"},
		"clusters that shall leave":       {found: operatorSituation{deployment: ours}, clusters: []string{"a"}, flags: cleanCommand{allClusters: true}},
		"nobody who could remove a hub":   {found: operatorSituation{hubs: []operatorv1.ClusterManager{hubNamed("x", "Default")}}, want: "no operator"},
		"nobody who could let them leave": {clusters: []string{"a"}, flags: cleanCommand{allClusters: true}, want: "no operator"},
		"somebody else's":                 {found: operatorSituation{deployment: deployment("app", "x")}, want: "which Capstan has not installed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.found.operator = install.ClusterManagerOperator()
			expect(t, c.flags.checkClean(c.found, c.clusters), c.want)
		})
	}
}

func TestGatesGoToTheirComponent(t *testing.T) {
	got, err := hubSpec([]string{"StrictBootstrap=true", "NilExecutorValidating=true", "DefaultClusterSet=false"}, []string{"me"})
	if err != nil {
		t.Fatal(err)
	}
	want := operatorv1.ClusterManagerSpec{
		RegistrationConfiguration: &operatorv1.RegistrationHubConfiguration{
			AutoApproveUsers: []string{"me"},
			FeatureGates: []operatorv1.FeatureGate{
				{Feature: "DefaultClusterSet", Mode: "Disable"}, {Feature: "ManagedClusterAutoApproval", Mode: "Enable"}, {Feature: "StrictBootstrap", Mode: "Enable"},
			},
		},
		WorkConfiguration: &operatorv1.WorkConfiguration{FeatureGates: []operatorv1.FeatureGate{{Feature: "NilExecutorValidating", Mode: "Enable"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOldKubernetesIsRefused(t *testing.T) {
	for running, want := range map[string]string{
		"v1.30.0": "", "v1.36.3": "", "v1.30.2-eks-123": "", "v1.31.0-gke.100+x": "", "v1.29.9": "Kubernetes v1.29.9", "?": "is of version",
	} {
		t.Run(running, func(t *testing.T) { expect(t, checkKubernetes(running), want) })
	}
}

// TestEverythingIsPrintedForGitOps needs no cluster, and neither does the command.
func TestEverythingIsPrintedForGitOps(t *testing.T) {
	var out bytes.Buffer
	cmd := NewInitCommand(hub.NewSession(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, clock.RealClock{}))
	cmd.SetArgs([]string{"-o", "yaml", "--image", "example.com/i:1", "--replicas", "3"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := (&initCommand{replicas: 3}).renderHubObjects("example.com/i:1", operatorv1.ClusterManagerSpec{})
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(out.String(), "---\n"), "\n---\n")
	if len(documents) != len(want) {
		t.Fatalf("%d documents, want %d", len(documents), len(want))
	}
	for i, document := range documents {
		encoded, err := sigsyaml.YAMLToJSON([]byte(document))
		got := want[i].DeepCopy()
		got.Object = nil
		if err = errors.Join(err, got.UnmarshalJSON(encoded)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i].Object, got.Object); diff != "" {
			t.Errorf("document %d (-applied +printed):\n%s", i, diff)
		}
	}
}
