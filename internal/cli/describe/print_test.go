// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/agentrequest"
)

// now is the time of the page; ago is before it.
var now = time.Unix(1_000_000, 0)

func ago(seconds int) metav1.Time {
	return metav1.Time{Time: now.Add(-time.Duration(seconds) * time.Second)}
}

// lines prints one section, or all, and returns the lines without the blanks that align them.
func lines(t *testing.T, section func(*page)) []string {
	t.Helper()
	p := &page{clock: clocktesting.NewFakePassiveClock(now)}
	section(p)
	p.flush()
	var all []string
	for line := range strings.Lines(p.String()) {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

func cluster(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: ago(90)}}
	if change != nil {
		change(c)
	}
	return c
}

// TestEverySectionSaysWhatItHas: nothing is <none>, and what the user may not read is told in
// its place.
func TestEverySectionSaysWhatItHas(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("no right")
	sections := map[string]func(*clusterView, *page){
		"Conditions": (*clusterView).printConditions, sectionConnection: (*clusterView).printConnection, "Taints": (*clusterView).printTaints, "Resources": (*clusterView).printResources,
		"Claims": (*clusterView).printClaims, sectionWorks: (*clusterView).printWorks, sectionRequests: (*clusterView).printRequests, sectionEvents: (*clusterView).printEvents,
	}
	for section, printed := range sections {
		none := []string{section + ": <none>"}
		if section == sectionConnection { // nobody says anywhere how the two reach each other
			none = nil
		}
		if diff := cmp.Diff(none, lines(t, func(p *page) { printed(&clusterView{cluster: cluster(nil)}, p) })); diff != "" {
			t.Errorf("%s of nothing (-want +got):\n%s", section, diff)
		}
		unread := &clusterView{cluster: cluster(nil), unread: map[string]error{section: forbidden}}
		if diff := cmp.Diff([]string{section + ": <cannot be read: no right>"}, lines(t, func(p *page) { printed(unread, p) })); diff != "" {
			t.Errorf("%s that may not be read (-want +got):\n%s", section, diff)
		}
	}
}

func TestTheHeartbeat(t *testing.T) {
	t.Parallel()
	c := cluster(func(c *clusterv1.ManagedCluster) { c.Spec.LeaseDurationSeconds = 60 })
	lease := func(at *metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: at}}
	}
	for name, v := range map[string]struct {
		view clusterView
		want string
	}{
		"beats":                {clusterView{cluster: c, lease: lease(&metav1.MicroTime{Time: ago(30).Time})}, "30s ago, expected every 60s"},
		"has never beaten":     {clusterView{cluster: c, lease: lease(nil)}, ""},
		"is not there":         {clusterView{cluster: c}, ""},
		"has no time":          {clusterView{cluster: c, lease: lease(&metav1.MicroTime{})}, "<unknown> ago, expected every 60s"},
		"may not be looked at": {clusterView{cluster: c, unread: map[string]error{sectionHeartbeat: errors.New("no right")}}, "<cannot be read: no right>"},
	} {
		if got := v.view.heartbeat(&page{clock: clocktesting.NewFakePassiveClock(now)}); got != v.want {
			t.Errorf("the heartbeat %s: %q, not %q", name, got, v.want)
		}
	}
}

// TestTheSummary says why a cluster is not ready, and which facts are the cluster's own word.
func TestTheSummary(t *testing.T) {
	t.Parallel()
	all := lines(t, (&clusterView{
		cluster: cluster(func(c *clusterv1.ManagedCluster) {
			c.Labels = map[string]string{"b": "2", "a": "1"}
			c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "zone.open-cluster-management.io", Value: "z1,z2"}}
		}),
		connection: &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{Region: "eu"}, Status: fleetv1alpha1.ClusterConnectionStatus{
			NodeSummary: &fleetv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 1},
		}},
	}).printSummary)
	for _, want := range []string{
		"Name: east", "Labels: a=1", "b=2", "Annotations: <none>", "Created: 90s ago", "Ready: False", "Accepted: false",
		"Region: eu", "Zones: z1,z2 (reported by the cluster)", "Nodes: 3, of which 1 are ready", "APIs: <none>", "Provider: <none>",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no line is %q:\n%s", want, strings.Join(all, "\n"))
		}
	}
	if !slices.ContainsFunc(all, func(line string) bool { return strings.HasPrefix(line, "Because: WaitingForAcceptance: ") }) {
		t.Errorf("no line says why it is not ready:\n%s", strings.Join(all, "\n"))
	}
}

func TestTaintsResourcesAndClaims(t *testing.T) {
	t.Parallel()
	v := &clusterView{cluster: cluster(func(c *clusterv1.ManagedCluster) {
		c.Annotations = map[string]string{fleetv1alpha1.AnnotationPinnedClaims: `{"b":"hub"}`}
		c.Spec.Taints = []clusterv1.Taint{{Key: "gpu", Value: "a", Effect: "NoSelect", TimeAdded: ago(60)}, {Key: "old", Effect: "NoSelect"}}
		c.Status.Capacity = clusterv1.ResourceList{"memory": resource.MustParse("4Gi"), "cpu": resource.MustParse("8")}
		c.Status.Allocatable = clusterv1.ResourceList{"cpu": resource.MustParse("7500m"), "other": resource.MustParse("1")}
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "b", Value: "cluster"}, {Name: "a", Value: "x\nReady: True"}}
	})}
	want := []string{
		"Taints:", "gpu=a:NoSelect added 60s ago", "old:NoSelect",
		"Resources:", "Resource Capacity Allocatable", "-------- -------- -----------", "cpu 8 7500m", "memory 4Gi <none>",
		"Claims:", "a: x Ready: True", "b: hub pinned by the hub",
	}
	if diff := cmp.Diff(want, lines(t, func(p *page) { v.printTaints(p); v.printResources(p); v.printClaims(p) })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOnlyARequestThatMayBeApprovedHasAKey: the key is that by which an administrator
// recognizes an agent.
func TestOnlyARequestThatMayBeApprovedHasAKey(t *testing.T) {
	t.Parallel()
	asks, public := agentrequest.NewRequest(t, "east", "one")
	request := func(name string, usage certificatesv1.KeyUsage, conditions ...certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequest {
		r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(60), Labels: map[string]string{clusterv1.LabelClusterName: "east"}}}
		r.Spec.Username, r.Spec.SignerName, r.Spec.Usages = "someone", certificatesv1.KubeAPIServerClientSignerName, []certificatesv1.KeyUsage{usage}
		r.Spec.Request = asks
		for _, kind := range conditions {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
		}
		return r
	}
	const client = certificatesv1.UsageClientAuth
	v := &clusterView{cluster: cluster(nil), requests: []certificatesv1.CertificateSigningRequest{
		request("approved", client, certificatesv1.CertificateApproved), request("odd", certificatesv1.UsageServerAuth), request("well", client),
		request("denied", client, certificatesv1.CertificateDenied), request("failed", client, certificatesv1.CertificateFailed),
	}}
	want := []string{
		"Certificate Requests:", "Name Age Requested By Key", "---- --- ------------ ---", "odd 60s someone <none>", "well 60s someone " + policy.KeyFingerprint(public),
		`The right one has the key that "kubectl describe klusterlet" shows on the cluster.`,
	}
	if diff := cmp.Diff(want, lines(t, v.printRequests)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTheLatestEventComesLast, by the best time that each tells; and a text of several lines
// does not look like several of ours.
func TestTheLatestEventComesLast(t *testing.T) {
	t.Parallel()
	event := func(name string, change func(*corev1.Event)) corev1.Event {
		e := corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(10)}, Type: "Normal", Reason: name}
		change(&e)
		return e
	}
	v := &clusterView{cluster: cluster(nil), events: []corev1.Event{
		event("C", func(e *corev1.Event) { e.Message = "a\nb" }),
		event("B", func(e *corev1.Event) {
			e.EventTime, e.ReportingController, e.Source.Component = metav1.MicroTime(ago(30)), "new", "old"
		}),
		event("A", func(e *corev1.Event) {
			e.LastTimestamp, e.EventTime, e.Source.Component = ago(40), metav1.MicroTime(ago(5)), "old"
		}),
		event("D", func(e *corev1.Event) { e.CreationTimestamp = metav1.Time{} }),
		event("Before", func(*corev1.Event) {}),
	}}
	want := []string{
		"Events:", "Type Reason Age From Message", "---- ------ --- ---- -------",
		"Normal D <unknown>", "Normal A 40s old", "Normal B 30s new", "Normal Before 10s", "Normal C 10s a b",
	}
	if diff := cmp.Diff(want, lines(t, v.printEvents)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if v.events[0].Name != "C" {
		t.Error("the events that were read are in another order now")
	}
}

func TestAWorkSaysWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	work := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "east", CreationTimestamp: ago(60), Generation: 1}}
	work.Spec.Workload.Manifests = make([]workv1.Manifest, 2)
	well := *work.DeepCopy()
	well.Name = "well"
	for _, kind := range []string{workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable} {
		well.Status.Conditions = append(well.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 1})
	}
	got := lines(t, (&clusterView{cluster: cluster(nil), works: []workv1.ManifestWork{work, well}}).printWorks)
	if len(got) != 5 || !strings.HasPrefix(got[3], "web 2 Unknown 60s NotSeen: ") || got[4] != "well 2 True 60s" {
		t.Errorf("the works are told as:\n%s", strings.Join(got, "\n"))
	}
}

// TestColumnsAreAsWideAsTheyNeedToBe, by characters and not by bytes, and only in one table.
func TestColumnsAreAsWideAsTheyNeedToBe(t *testing.T) {
	t.Parallel()
	p := &page{}
	p.addTableRow("Zürich", "a")
	p.addTableRow("Berlin", "", "c")
	p.printField("Next", "")
	p.addTableRow("x", "y")
	p.flush()
	if diff := cmp.Diff("  Zürich  a\n  Berlin     c\nNext:                 <none>\n  x  y\n", p.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
