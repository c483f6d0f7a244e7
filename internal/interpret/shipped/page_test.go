// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"cmp"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// TestThePageSaysHowKindsDiffer makes the table of the documentation from the scripts, the native
// kinds and the notes of the page about what differs from Karmada, and compares it with the one
// that is there. What Karmada has no rule for, and we have one, or the other way round, needs a note.
func TestThePageSaysHowKindsDiffer(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/reference/interpreters.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	p := readPage(t, string(content))
	want := p.before + "\n" + p.table(t) + "\n" + p.after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s differs (-update writes it):\n%s", page, diff)
	}
}

// The operations, as the page has them.
const (
	replicas   = "replicas"
	revised    = "revised"
	components = "components"
	sent       = "sent"
	retained   = "retained"
	reported   = "reported"
	status     = "status"
	judged     = "health"
	needs      = "needs"
)

func columns() []string {
	return []string{replicas, revised, components, sent, retained, reported, status, judged, needs}
}

// The names of groups of kinds in notes.
const (
	allKinds   = "all"
	ofOthers   = "kinds of others"
	kubernetes = "kinds of Kubernetes"
)

// documented is a kind with the operations that there is a rule for.
type documented struct {
	kind    schema.GroupKind
	version string
	rules   map[string]bool
}

// pageOf is the page in parts.
type pageOf struct {
	before, after string
	groups        map[string][]documented
	// notes are the numbers of notes by KIND.GROUP or the name of a group, and operation.
	notes map[string]map[string][]string
}

func readPage(t *testing.T, content string) pageOf {
	t.Helper()
	const begin, end = "<!-- kinds: written by 'go test ./internal/interpret/shipped -run Page -update' -->\n", "<!-- end of kinds -->"
	before, rest, found := strings.Cut(content, begin)
	_, after, also := strings.Cut(rest, end)
	_, notes, too := strings.Cut(after, "<!-- notes: the table of kinds is made of them -->\n")
	notes, _, last := strings.Cut(notes, "<!-- end of notes -->")
	if !found || !also || !too || !last {
		t.Fatal("the page has no table, or no notes")
	}
	p := pageOf{before: before + begin, after: end + after, notes: map[string]map[string][]string{}, groups: map[string][]documented{
		ofOthers: shippedKinds(t), kubernetes: nativeKinds(),
	}}
	for i, row := range strings.Split(strings.TrimSpace(notes), "\n")[2:] {
		p.read(t, row, strconv.Itoa(i+1))
	}
	return p
}

// read reads a note.
func (p pageOf) read(t *testing.T, row, number string) {
	t.Helper()
	cells := strings.Split(strings.Trim(row, "| "), " | ")
	if len(cells) != 6 || slices.Contains(cells, "") || cells[0] != number {
		t.Fatalf("note %s needs its number, kinds, operations, what differs, why, and what a user sees: %s", number, row)
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ", ") {
		for _, of := range p.named(t, name) {
			for operation := range strings.SplitSeq(cells[2], ", ") {
				if !slices.Contains(columns(), operation) {
					t.Fatalf("note %s: there is no operation %q", number, operation)
				}
				if p.notes[of] == nil {
					p.notes[of] = map[string][]string{}
				}
				p.notes[of][operation] = append(p.notes[of][operation], number)
			}
		}
	}
}

// named returns the groups or kinds that a note means.
func (p pageOf) named(t *testing.T, name string) []string {
	t.Helper()
	switch name {
	case allKinds:
		return []string{ofOthers, kubernetes}
	case ofOthers, kubernetes:
		return []string{name}
	}
	var all []string
	group, ofGroup := strings.CutPrefix(name, "*.")
	for _, kinds := range p.groups {
		for _, d := range kinds {
			if d.kind.String() == name || d.kind.Kind == name || ofGroup && d.kind.Group == group {
				all = append(all, d.kind.String())
			}
		}
	}
	if len(all) == 0 || len(all) > 1 && !ofGroup {
		t.Fatalf("a note is about %q, which is %v: name one kind as KIND.GROUP, or all of a group as *.GROUP", name, all)
	}
	return all
}

// table writes the table of kinds.
func (p pageOf) table(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| Kind | " + strings.Join(columns(), " | ") + " |\n|---|" + strings.Repeat("---|", len(columns())) + "\n")
	theirs := karmadas()
	for _, group := range []string{ofOthers, kubernetes} {
		text.WriteString("| **" + strings.ToUpper(group[:1]) + group[1:] + "** |")
		for _, operation := range columns() {
			text.WriteString(strings.TrimRight(" "+p.numbers(group, operation), " ") + " |")
		}
		text.WriteString("\n")
		for _, d := range p.groups[group] {
			has, known := theirs[d.kind.String()]
			if delete(theirs, d.kind.String()); !known {
				t.Errorf("what Karmada does with %s is not known", d.kind)
			}
			text.WriteString(p.row(t, d, strings.Fields(has)))
		}
	}
	for kind := range theirs {
		t.Errorf("%s, which Karmada knows, is not in the table", kind)
	}
	return text.String()
}

// row writes what differs of a kind; theirs are the operations that Karmada has a rule for.
func (p pageOf) row(t *testing.T, d documented, theirs []string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| `" + d.kind.Kind + "`")
	if place := strings.TrimLeft(d.kind.Group+"/"+d.version, "/"); d.version != "" {
		text.WriteString(" of `" + place + "`")
	} else if d.kind.Group != "" {
		text.WriteString(" of `" + d.kind.Group + "`")
	}
	text.WriteString(" |")
	for _, operation := range columns() {
		numbers := p.numbers(d.kind.String(), operation)
		switch {
		case numbers != "":
			text.WriteString(" differs " + numbers + " |")
		case operation != reported && d.rules[operation] != slices.Contains(theirs, operation):
			t.Errorf("%s, %s: a rule is there %t, and in Karmada %t: a note has to say so", d.kind, operation, d.rules[operation], slices.Contains(theirs, operation))
		case d.rules[operation]:
			text.WriteString(" same |")
		default:
			text.WriteString(" – |")
		}
	}
	return text.String() + "\n"
}

// numbers returns the numbers of notes.
func (p pageOf) numbers(of, operation string) string {
	if numbers := p.notes[of][operation]; len(numbers) > 0 {
		return "(" + strings.Join(numbers, ", ") + ")"
	}
	return ""
}

// shippedKinds are those of others. All of them have a status.
func shippedKinds(t *testing.T) []documented {
	t.Helper()
	names := map[lua.Operation]string{
		lua.ReplicaResource: replicas, lua.ReplicaRevision: revised, lua.ComponentResource: components, lua.Retention: retained,
		lua.StatusReflection: reported, lua.StatusAggregation: status, lua.HealthInterpretation: judged, lua.DependencyInterpretation: needs,
	}
	var all []documented
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		customization, err := shipped.ReadCustomization(kind)
		if err != nil {
			t.Fatal(err)
		}
		says := customized.LuaCustomizationOf(customization)
		d := documented{kind: kind, version: says.Kind.Version, rules: map[string]bool{reported: true, status: true}}
		for operation := range says.Scripts {
			d.rules[names[operation]] = true
		}
		all = append(all, d)
	}
	return all
}

// nativeKinds are those of Kubernetes that the native layer knows.
func nativeKinds() []documented {
	layer, kinds := native.NewKubernetesKinds(), map[schema.GroupKind]bool{
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:             true,
		{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}:           true,
	}
	for kind := range scheme.Scheme.AllKnownTypes() {
		kinds[kind.GroupKind()] = true
	}
	var all []documented
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	}) {
		known := layer.Operations(kind.WithVersion("v1"))
		if !reflect.ValueOf(known).IsZero() {
			all = append(all, documented{kind: kind, rules: nativeRules(known)})
		}
	}
	return all
}

// nativeRules returns which operations a kind of Kubernetes has rules for. What has replicas
// leaves them to the cluster where the template is labelled so.
func nativeRules(known interpret.Operations) map[string]bool {
	health := known.Health != nil || known.Verdict != nil
	return map[string]bool{
		replicas: known.Replicas != nil, revised: known.Revise != nil, components: known.Components != nil,
		sent: known.Prune != nil, retained: known.Retained != nil || known.Revise != nil,
		reported: health || known.Aggregate != nil, status: known.Aggregate != nil, judged: health, needs: known.Dependencies != nil,
	}
}

// karmadas are the operations that Karmada has a rule for, by kind, but for what is reported: it
// reports a status of each kind. A definition, an APIService and a Namespace of its hub keep their own.
func karmadas() map[string]string {
	const source = ".source.toolkit.fluxcd.io"
	return map[string]string{
		"AdvancedCronJob.apps.kruise.io": "status needs", "BroadcastJob.apps.kruise.io": "replicas revised retained status health needs",
		"CloneSet.apps.kruise.io": "replicas revised status health needs", "DaemonSet.apps.kruise.io": "status health needs",
		"SidecarSet.apps.kruise.io": "replicas status health needs", "StatefulSet.apps.kruise.io": "replicas revised status health needs",
		"UnitedDeployment.apps.kruise.io": "replicas revised status health needs", "Workflow.argoproj.io": "replicas revised retained health needs",
		"Job.batch.volcano.sh": "components status health", "FlinkDeployment.flink.apache.org": "replicas components status health",
		"HelmRelease.helm.toolkit.fluxcd.io": "retained status health needs", "Kustomization.kustomize.toolkit.fluxcd.io": "retained status health needs",
		"MPIJob.kubeflow.org": "components status health needs", "Notebook.kubeflow.org": "replicas status health",
		"PyTorchJob.kubeflow.org": "components status health needs", "TFJob.kubeflow.org": "components status health needs",
		"ClusterPolicy.kyverno.io": "status health", "Policy.kyverno.io": "status health",
		"RayCluster.ray.io": "components status health", "RayJob.ray.io": "components status health needs",
		"RayService.ray.io": "replicas revised components status health needs", "SparkApplication.sparkoperator.k8s.io": "components status health",
		"Bucket" + source: "retained status health needs", "GitRepository" + source: "retained status health needs", "HelmChart" + source: "retained status health needs",
		"HelmRepository" + source: "retained status health needs", "OCIRepository" + source: "retained status health needs",

		"Deployment.apps": "replicas revised sent retained status health needs", "ReplicaSet.apps": "replicas revised status health needs",
		"StatefulSet.apps": "replicas revised status health needs", "DaemonSet.apps": "status health needs",
		"Job.batch": "replicas revised sent retained status needs", "CronJob.batch": "status needs", "Pod": "replicas retained status health needs",
		"Service": "sent retained status health", "Ingress.networking.k8s.io": "status health needs",
		"PersistentVolumeClaim": "sent retained status health", "PersistentVolume": "retained status",
		"ServiceAccount": "sent retained", "Secret": "sent retained", "PodDisruptionBudget.policy": "status health",
		"HorizontalPodAutoscaler.autoscaling": "status", "ServiceImport.multicluster.x-k8s.io": "needs",
		"CustomResourceDefinition.apiextensions.k8s.io": "status", "APIService.apiregistration.k8s.io": "status", "Namespace": "status",
		"ReplicationController": "", "ClusterRole.rbac.authorization.k8s.io": "",
	}
}
