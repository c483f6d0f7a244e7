// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// fieldsOf is an entry that says that a manager has written annotations whose names take
// as many bytes.
func fieldsOf(manager, apiVersion string, bytes int) metav1.ManagedFieldsEntry {
	return fieldsFilled(manager, apiVersion, bytes, "0")
}

// fieldsFilled is fieldsOf with names that consist of a text, before JSON escapes it.
func fieldsFilled(manager, apiVersion string, bytes int, text string) metav1.ManagedFieldsEntry {
	const each = 100
	filling, err := json.Marshal(strings.Repeat(text, (each-17)/len(text)))
	if err != nil {
		panic(err)
	}
	var names []string
	for i := range bytes / each {
		names = append(names, fmt.Sprintf(`"f:%s%010d":{}`, filling[1:len(filling)-1], i))
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiVersion, Time: &metav1.Time{Time: time.Unix(1, 0)},
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{` + strings.Join(names, ",") + `}}}`),
	}
}

// TestAMemberFillsNothingWithNamesOfFields has an agent write so many names of fields into what it
// may update, or such a long generateName, that nothing else fits.
func TestAMemberFillsNothingWithNamesOfFields(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "fields"
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	work := hub.NewManifestWork(name, "filled", "")
	h.CreateObjects(t, work)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: clusterv1.LeaseName}}
	for _, c := range []struct {
		object       client.Object
		max, allowed int
	}{
		{&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, 256 << 10, 50_000}, {work, 256 << 10, 50_000}, {lease, 8 << 10, 5_000},
	} {
		object := c.object
		what, why := fmt.Sprintf("%T", object), fmt.Sprintf("grow beyond %d bytes", c.max)
		writeFilled := func(bytes int, text string) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := h.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
					return err
				}
				version := "v1"
				if entries := object.GetManagedFields(); len(entries) > 0 {
					version = entries[0].APIVersion
				}
				object.SetManagedFields(append(object.GetManagedFields(), fieldsFilled("other", version, bytes, text)))
				return agent.Update(ctx, object)
			}
		}
		h.RefusedInTurn(t, what+", generateName", func(ctx context.Context) error {
			if err := h.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			object.SetGenerateName(strings.Repeat("x", 1_000_000))
			return agent.Update(ctx, object)
		}, "may not change metadata.generateName")
		write := func(bytes int) func(context.Context) error { return writeFilled(bytes, "0") }
		h.RefusedInTurn(t, what, write(1_000_000), why)
		h.RefusedInTurn(t, what, write(300_000), why)
		for escaped, text := range map[string]string{"ampersands": "&", "angles": "<>", "control characters": "\x01"} {
			h.RefusedInTurn(t, what+", "+escaped, writeFilled(60_000, text), why)
		}
		for escaped, text := range map[string]string{"quotes": `"`, "backslashes": `\`, "ends of lines": "\u2028\u2029"} {
			h.RefusedInTurn(t, what+", "+escaped, writeFilled(200_000, text), why)
		}
		if err := h.TryInTurn(t, write(c.allowed)); err != nil {
			t.Errorf("%s: the agent may not write %d bytes: %v", what, c.allowed, err)
		}
	}
	mc, claims := h.ReadCluster(t, name), []clusterv1.ManagedClusterClaim{}
	for i := range 2000 {
		claims = append(claims, clusterv1.ManagedClusterClaim{Name: fmt.Sprintf("claim-%d.example.com", i), Value: "x"})
	}
	if err := h.TryInTurn(t, func(ctx context.Context) error {
		mc = h.ReadClusterIn(ctx, t, name)
		mc.Status.ClusterClaims = claims
		return agent.Status().Update(ctx, mc)
	}); err != nil {
		t.Errorf("the agent may not report 2,000 claims: %v", err)
	}
	for what, value := range map[string]string{"ampersands": "&", "control characters": "\x01", "letters of four bytes": "\U0001F600"} {
		h.RefusedInTurn(t, what, func(ctx context.Context) error {
			mc = h.ReadClusterIn(ctx, t, name)
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{}
			for i := range 100 {
				mc.Status.ClusterClaims = append(mc.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: fmt.Sprint("claim-", i), Value: strings.Repeat(value, 1000)})
			}
			return agent.Status().Update(ctx, mc)
		}, "at most 262144 bytes")
	}
}

// TestNobodyNestsNamesOfFieldsWithoutEnd has a user write names of fields as deep as API servers store them: a list of such
// objects is deeper than any client reads.
func TestNobodyNestsNamesOfFieldsWithoutEnd(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	nested := func(levels int) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "cluster.open-cluster-management.io/v1beta2", Time: &metav1.Time{Time: time.Unix(1, 0)},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels)),
		}}
	}
	const why, deepest = "may not be nested more than 20 levels deep", 9_995
	set := func(levels int) func(context.Context) error {
		return func(ctx context.Context) error {
			return h.Client.Create(ctx, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("nested-", levels), ManagedFields: nested(levels)}})
		}
	}
	h.RefusedInTurn(t, "a set", set(deepest), why)
	h.RefusedInTurn(t, "a set", set(21), why)
	expect.NoError(t, h.TryInTurn(t, set(20)))
	h.RefusedInTurn(t, "the same set", func(ctx context.Context) error {
		known := &clusterv1beta2.ManagedClusterSet{}
		if err := h.Client.Get(ctx, client.ObjectKey{Name: "nested-20"}, known); err != nil {
			return err
		}
		known.ManagedFields = nested(deepest)
		return h.Client.Update(ctx, known)
	}, why)
	expect.NoError(t, h.Client.List(t.Context(), &clusterv1beta2.ManagedClusterSetList{}))
}

// TestAMemberReportsOfItsWorksWithinBounds has an agent report more of its works than agents do, and as much as those of Capstan do at most.
func TestAMemberReportsOfItsWorksWithinBounds(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name, values, others = "reports", "may report values of at most", "may report conditions and names of at most"
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	report := func(work *workv1.ManifestWork, status func() workv1.ManifestWorkStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := h.Client.Get(ctx, client.ObjectKeyFromObject(work), work); err != nil {
				return err
			}
			work.Status = status()
			return agent.Status().Update(ctx, work)
		}
	}
	condition := func(kind, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Said", Message: message, LastTransitionTime: metav1.Unix(1, 0)}
	}
	// of returns a status with values of so many characters, and conditions with messages.
	of := func(number, length int, text string, messages ...string) func() workv1.ManifestWorkStatus {
		return func() workv1.ManifestWorkStatus {
			entry := workv1.ManifestCondition{Conditions: []metav1.Condition{}}
			for i := range number {
				entry.StatusFeedback.Values = append(entry.StatusFeedback.Values, workv1.FeedbackValue{
					Name: fmt.Sprint("value-", i), FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: ptr.To(strings.Repeat(text, length/len(text)))},
				})
			}
			for i, message := range messages {
				entry.Conditions = append(entry.Conditions, condition(fmt.Sprint("Said", i), message))
			}
			return workv1.ManifestWorkStatus{ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{entry}}}
		}
	}
	if err := workv1.AddToScheme(h.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "reported"}}
	namespace := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "namespace", Labels: map[string]string{deliver.LabelNamespace: "shop"}}}
	h.CreateObjects(t, work, namespace)
	long := strings.Repeat("x", 32_000)
	for what, c := range map[string]struct {
		work   *workv1.ManifestWork
		status func() workv1.ManifestWorkStatus
		why    string
	}{
		"five values of 256 KiB":      {work, of(5, 256<<10, "x"), values},
		"values of 600 KiB":           {work, of(3, 200<<10, "x"), values},
		"values of 110 KiB of angles": {work, of(1, 110<<10, "<"), values},
		"values of 300 KiB of quotes": {work, of(2, 150<<10, `"`), values},
		"10,000 empty values":         {work, of(10_000, 0, "x"), values},
		"long messages":               {work, of(0, 0, "x", long, long, long), others},
		"long names": {work, func() workv1.ManifestWorkStatus {
			status := of(0, 0, "x")()
			status.ResourceStatus.Manifests[0].ResourceMeta.Name = strings.Repeat("x", 200_000)
			return status
		}, others},
		"entries of no manifest": {work, func() workv1.ManifestWorkStatus {
			status := of(0, 0, "x")()
			for range 10 {
				status.ResourceStatus.Manifests = slices.Repeat(status.ResourceStatus.Manifests, 2)
			}
			return status
		}, others},
		"values of a namespace":   {namespace, of(1, 9<<10, "x"), values},
		"messages of a namespace": {namespace, of(0, 0, "x", long), others},
	} {
		h.RefusedInTurn(t, what, report(c.work, c.status), c.why)
	}
	for what, c := range map[string]struct {
		work   *workv1.ManifestWork
		status func() workv1.ManifestWorkStatus
	}{
		"the largest values":   {work, of(2, 255<<10, "x")},
		"values with quotes":   {work, of(1, 256<<10, `{"ready":true},`+"\n")},
		"many values":          {work, of(5000, 10, "x")},
		"long messages":        {work, of(0, 0, "x", long, strings.Repeat("a line that is said\n", 1500))},
		"what a namespace has": {namespace, of(2, 3<<10, "x", "Applied.", strings.Repeat("x", 10_000))},
	} {
		if err := h.TryInTurn(t, report(c.work, c.status)); err != nil {
			t.Errorf("%s: the agent may not report it: %v", what, err)
		}
	}
}

// TestAMemberHasAPIServersMeasureNoMegabytes has an agent report nearly as much as a request may have, of characters each of which counts by
// itself. To look for them takes memory for each, so that such texts are to be refused by how many characters they have.
func TestAMemberHasAPIServersMeasureNoMegabytes(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name, large = "megabytes", 2_900_000
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	expect.NoError(t, workv1.AddToScheme(h.Client.Scheme()))
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "reported"}}
	h.CreateObjects(t, work)
	// Clients of Go would write these characters in six bytes each.
	value := func(n int, kind, field string, length int) string {
		return fmt.Sprintf(`{"name":"value-%d","fieldValue":{"type":%q,%q:%q}}`, n, kind, field, strings.Repeat("&", length))
	}
	var raw []string
	for n := range large / (256 << 10) {
		raw = append(raw, value(n, "JsonRaw", "jsonRaw", 256<<10))
	}
	for what, c := range map[string]struct{ named, values, why string }{
		"values": {"web", strings.Join(raw, ","), "may report values of at most 532480 bytes"},
		"a text": {"web", value(0, "String", "string", large), "fieldValue.string: Too long"},
		"a name": {strings.Repeat("&", large), "", "may report conditions and names of at most 65536 bytes"},
	} {
		body := fmt.Sprintf(`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":%q},"statusFeedback":{"values":[%s]}}]}}}`, c.named, c.values)
		hub.RefusedWith(t, what, agent.Status().Patch(t.Context(), work.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body))), c.why)
	}
}

// TestAMemberWritesItsHeartbeatOnlyToItsLease has an agent write to its Lease what is none of its
// business, or without end.
func TestAMemberWritesItsHeartbeatOnlyToItsLease(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "heartbeat"
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: clusterv1.LeaseName}}
	const owned, marked, held = "neither the finalizers nor the owners of its Lease", "labels and annotations of together at most 4096 bytes", "at most 253 bytes for the holder"
	write := func(by client.Client, change func()) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := h.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
				return err
			}
			change()
			return by.Update(ctx, lease)
		}
	}
	for what, c := range map[string]struct {
		change func()
		why    string
	}{
		"finalizers": {func() { lease.Finalizers = []string{"example.com/keep"} }, owned},
		"owners": {func() {
			lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "none"}}
		}, owned},
		"labels":      {func() { lease.Labels = manyKeys(64, 63) }, marked},
		"annotations": {func() { lease.Annotations = map[string]string{"long": strings.Repeat("x", 200_000)} }, marked},
		"a holder":    {func() { lease.Spec.HolderIdentity = ptr.To(strings.Repeat("x", 1_000_000)) }, held},
	} {
		h.RefusedInTurn(t, what, write(agent, c.change), c.why)
	}
	// What somebody of the hub has written there stops no heartbeat.
	if err := h.TryInTurn(t, write(h.Client, func() {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "long", strings.Repeat("x", 5000))
		lease.Spec.HolderIdentity = ptr.To(strings.Repeat("x", 300))
	})); err != nil {
		t.Fatal(err)
	}
	if err := h.TryInTurn(t, write(agent, func() { lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(1, 0)} })); err != nil {
		t.Errorf("the agent may not renew a Lease with an annotation of another: %v", err)
	}
}

// TestAMemberRecordsNoLargeEvents has an agent fill etcd with Events in its namespace, by either API.
func TestAMemberRecordsNoLargeEvents(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "events"
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	long := strings.Repeat("x", 100_000)
	about := corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Namespace: name, Name: name}
	old := func() *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, GenerateName: "event-"}, InvolvedObject: about, Type: "Normal", Reason: "Joined",
			Message: "The cluster has joined.", Source: corev1.EventSource{Component: "klusterlet-agent", Host: "node"},
		}
	}
	usual := func() *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, GenerateName: "event-"}, Regarding: about, Type: "Normal", Reason: "Joined", Action: "Join",
			Note: strings.Repeat("x", 1024), EventTime: metav1.NowMicro(), ReportingController: "klusterlet-agent", ReportingInstance: "klusterlet-agent-1",
		}
	}
	for _, event := range []client.Object{old(), usual()} {
		if err := agent.Create(t.Context(), event); err != nil {
			t.Fatalf("the agent may not record a usual %T: %v", event, err)
		}
		event.SetLabels(map[string]string{"a": "b"})
		if err := agent.Update(t.Context(), event); err != nil {
			t.Errorf("the agent may not change a usual %T: %v", event, err)
		}
		event.SetAnnotations(map[string]string{"long": long})
		hub.RefusedWith(t, "a change", agent.Update(t.Context(), event), "bytes of labels and annotations")
	}
	const labels, other, fields = "bytes of labels and annotations", "bytes of other texts", "bytes of metadata.managedFields"
	for what, c := range map[string]struct {
		change func(*corev1.Event)
		why    string
	}{
		"a message":      {func(e *corev1.Event) { e.Message = long }, "at most 1024 bytes of message"},
		"a reason":       {func(e *corev1.Event) { e.Reason = long }, other},
		"a host":         {func(e *corev1.Event) { e.Source.Host = long }, other},
		"a path":         {func(e *corev1.Event) { e.InvolvedObject.FieldPath = long }, other},
		"another object": {func(e *corev1.Event) { e.Related = &corev1.ObjectReference{Name: long} }, other},
		"annotations":    {func(e *corev1.Event) { e.Annotations = map[string]string{"long": long} }, labels},
		"labels":         {func(e *corev1.Event) { e.Labels = manyKeys(1000, 63) }, labels},
		"managed fields": {func(e *corev1.Event) {
			e.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf("other", "v1", 100_000)}
		}, fields},
		"finalizers": {func(e *corev1.Event) { e.Finalizers = []string{"example.com/stay"} }, "neither finalizers nor owners"},
	} {
		event := old()
		c.change(event)
		hub.RefusedWith(t, "an event with "+what, agent.Create(t.Context(), event), c.why)
	}
	newer := usual()
	newer.Annotations = map[string]string{"long": long}
	hub.RefusedWith(t, "an event of events.k8s.io", agent.Create(t.Context(), newer), labels)
	elsewhere := old()
	elsewhere.Namespace, elsewhere.InvolvedObject.Namespace = metav1.NamespaceDefault, metav1.NamespaceDefault
	hub.RefusedWith(t, "an event elsewhere", agent.Create(t.Context(), elsewhere), "forbidden")
}

// TestAMemberReportsNoTimesThatNobodyReads has an agent report conditions with times that API servers take for such by the
// format alone: no client of Go reads a list that has one.
func TestAMemberReportsNoTimesThatNobodyReads(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "times"
	h.JoinWithLabels(t, name, nil)
	agent := h.AgentClient(t, name)
	expect.NoError(t, workv1.AddToScheme(h.Client.Scheme()))
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "reported"}}
	h.CreateObjects(t, work)
	for _, object := range []client.Object{
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, work,
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}},
	} {
		report := func(when string) error {
			status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Said","status":"True","reason":"Said","message":"","lastTransitionTime":%q}]}}`, when)
			return agent.Status().Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(status)))
		}
		for _, when := range []string{
			"2026-01-01t00:00:00z", "2026-01-01T00:00:00Ztoday", "2026-01-01T00:00:00x1Z", "2026-01-01T00:00:00+99:99",
			"2026-01-01T00:00:00." + strings.Repeat("0", 100_000) + "Z",
		} {
			if err := report(when); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "lastTransitionTime") {
				t.Errorf("%T: the agent reports %.40s: got %v, want a refusal", object, when, err)
			}
		}
	}
	for _, list := range []client.ObjectList{&clusterv1.ManagedClusterList{}, &workv1.ManifestWorkList{}, &fleetv1alpha1.ClusterConnectionList{}} {
		expect.NoError(t, h.Client.List(t.Context(), list))
	}
}
