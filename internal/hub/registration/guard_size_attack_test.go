// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// manyKeys is a map of as many keys, each with a value of as many bytes.
func manyKeys(count, bytes int) map[string]string {
	keys := map[string]string{}
	for i := range count {
		keys[fmt.Sprintf("key-%d", i)] = strings.Repeat("x", bytes)
	}
	return keys
}

// taints are as many, with a value.
func taints(count int, value string) (list []clusterv1.Taint) {
	for i := range count {
		list = append(list, clusterv1.Taint{Key: fmt.Sprint("key-", i), Value: value, Effect: clusterv1.TaintEffectNoSelect})
	}
	return list
}

// TestNobodyAsksToJoinWithMegabytes has somebody who may ask to join send what every controller of the
// hub would keep in memory.
func TestNobodyAsksToJoinWithMegabytes(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const joiner, acceptor = "joiner", "acceptor"
	asks := rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupName, certificatesv1.GroupName}, Resources: []string{"managedclusters", "certificatesigningrequests"},
		Verbs: []string{"create"},
	}
	accepts := rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"},
	}
	h.GrantUser(t, joiner, asks)
	h.GrantUser(t, acceptor, asks, accepts)
	as, asAcceptor := h.ClientOf(t, joiner), h.ClientOf(t, acceptor)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "gone", UID: "gone"}
	const marks, more = "finalizers nor owners", "at most 64 labels and 64 annotations"

	request := h.AskForCertificate(t, as, pkix.Name{CommonName: "anybody"}, "asked", nil).Spec
	large := *request.DeepCopy()
	large.Request = append(large.Request, []byte(strings.Repeat("\n", 9<<10))...)
	for what, c := range map[string]struct {
		csr certificatesv1.CertificateSigningRequest
		why string
	}{
		"labels":      {certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Labels: manyKeys(1000, 63)}, Spec: request}, more},
		"annotations": {certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Annotations: manyKeys(5, 1000)}, Spec: request}, more},
		"finalizers":  {certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/stay"}}, Spec: request}, marks},
		"an owner":    {certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner}}, Spec: request}, marks},
		"managed fields": {certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{fieldsOf("other", certificatesv1.SchemeGroupVersion.String(), 9_000)},
		}, Spec: request}, "no metadata.managedFields but his own"},
		"a request": {certificatesv1.CertificateSigningRequest{Spec: large}, "at most 8192 bytes"},
	} {
		c.csr.GenerateName = "asked-"
		metav1.SetMetaDataLabel(&c.csr.ObjectMeta, clusterv1.LabelClusterName, "asked")
		hub.RefusedWith(t, "a certificate request with "+what, as.Create(t.Context(), &c.csr), c.why)
	}
	// Who may ask to join may do so without the label of a cluster.
	account := "system:serviceaccount:" + hub.OperatorNamespace + ":" + operatorv1.BootstrapServiceAccount
	h.GrantUser(t, account, asks)
	for what, by := range map[string]client.Client{
		"the account of agents": h.ClientOf(t, account), "a bootstrap token": h.ClientOf(t, joiner, clusterv1.GroupBootstrappers), "an agent": h.AgentClient(t, "canary"),
	} {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-"}, Spec: large}
		hub.RefusedWith(t, "a large certificate request of "+what+" without a label", by.Create(t.Context(), csr), "at most 8192 bytes")
	}
	for label, allowed := range map[string]bool{"canary": true, "asked": false} {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-"}, Spec: request}
		metav1.SetMetaDataLabel(&csr.ObjectMeta, clusterv1.LabelClusterName, label)
		switch err := h.AgentClient(t, "canary").Create(t.Context(), csr); {
		case allowed && err != nil:
			t.Errorf("the agent of cluster %q makes no request in its name: %v", label, err)
		case !allowed:
			hub.RefusedWith(t, "a certificate request of an agent in the name of another cluster", err, "its own cluster only")
		}
	}

	for what, c := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		why    string
	}{
		"labels":      {func(mc *clusterv1.ManagedCluster) { mc.Labels = manyKeys(1000, 63) }, more},
		"annotations": {func(mc *clusterv1.ManagedCluster) { mc.Annotations = manyKeys(60, 4000) }, more},
		"finalizers":  {func(mc *clusterv1.ManagedCluster) { mc.Finalizers = []string{"example.com/stay"} }, marks},
		"an owner":    {func(mc *clusterv1.ManagedCluster) { mc.OwnerReferences = []metav1.OwnerReference{owner} }, marks},
		"a quick end": {func(mc *clusterv1.ManagedCluster) {
			mc.Annotations = map[string]string{fleetv1alpha1.AnnotationForceDetach: "true"}
		}, "no annotations but those that begin with agent.open-cluster-management.io/"},
		"a deadline for its removal": {func(mc *clusterv1.ManagedCluster) {
			mc.Annotations = map[string]string{clusterv1.GroupName + "/detach-deadline": "0s"}
		}, "no annotations but those that begin with agent.open-cluster-management.io/"},
		"the mark of those whom an acceptor registers": {func(mc *clusterv1.ManagedCluster) {
			mc.Annotations = map[string]string{clusterv1.AnnotationRegisteredByAcceptor: "true"}
		}, "no annotations but those that begin with agent.open-cluster-management.io/"},
		"a heartbeat of days":              {func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 1 << 20 }, "at most 300 for leaseDurationSeconds"},
		"a heartbeat of less than no time": {func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = -1 }, "no negative number"},
		"a certificate": {func(mc *clusterv1.ManagedCluster) {
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://x:6443", CABundle: make([]byte, 64<<10)}}
		}, "managedClusterClientConfigs"},
		"many taints":  {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = taints(65, "x") }, "at most 64 taints"},
		"large taints": {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = taints(64, strings.Repeat("\x01", 1024)) }, "at most 64 taints"},
		"managed fields": {func(mc *clusterv1.ManagedCluster) {
			mc.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf("other", clusterv1.GroupVersion.String(), 1_000_000)}
		}, "no metadata.managedFields but his own"},
		"an entry of another": {func(mc *clusterv1.ManagedCluster) {
			mc.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf("other", clusterv1.GroupVersion.String(), 100)}
		}, "no metadata.managedFields but his own"},
	} {
		mc := hub.NewCluster("asked", false)
		c.change(mc)
		hub.RefusedWith(t, "a ManagedCluster with "+what, as.Create(t.Context(), mc), c.why)
		if what == "labels" || what == "a heartbeat of days" {
			if err := asAcceptor.Create(t.Context(), mc); err != nil {
				t.Errorf("who may accept clusters may not make one with %s: %v", what, err)
			}
			if err := h.Client.Delete(t.Context(), mc); err != nil {
				t.Fatal(err)
			}
			h.IsGone(t, mc)
		}
	}
	// It is for the webhook, which is not here, to say that he may not accept it.
	accepted := hub.NewCluster("asked", true)
	accepted.Finalizers = []string{clusterv1.FinalizerAPIResourceCleanup}
	if err := as.Create(t.Context(), accepted, client.DryRunAll); err != nil {
		t.Errorf("a cluster that comes accepted is refused for what the hub's webhook gives it: %v", err)
	}
	mc := hub.NewCluster("asked", false)
	mc.Labels = map[string]string{"env": "x"}
	// The webhook marks the cluster as one that waits before the guard looks at it.
	mc.Annotations = map[string]string{fleetv1alpha1.AnnotationAgentID: "1", hub.OwnPrefix + "x": "y", clusterv1.AnnotationAwaitingAcceptance: "mark"}
	if err := as.Create(t.Context(), mc); err != nil {
		t.Errorf("who asks to join may not: %v", err)
	}
}

// TestAMemberLeavesRoomInItsManagedCluster has an agent write so much about its cluster that there
// is no room for what an administrator writes there.
func TestAMemberLeavesRoomInItsManagedCluster(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name, spaces = "filled", "spaces"
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: spaces}}
	set.Spec.ManagedNamespaces = []clusterv1.ManagedNamespaceConfig{{Name: "shared"}}
	h.CreateObjects(t, set)
	h.JoinWithLabels(t, name, map[string]string{clusterv1.LabelClusterSet: spaces})
	h.Eventually(t, "the hub requests the namespace of the set", func(ctx context.Context) (bool, error) {
		return len(h.ReadClusterIn(ctx, t, name).Status.ManagedNamespaces) == 1, nil
	})
	h.AllowLabels(t, name, agentlabels.AllowedKeys{"*"})
	agent := h.AgentClient(t, name)
	// It writes for Push clusters what their API servers say.
	pushAgent := "system:serviceaccount:" + operatorv1.DefaultHubNamespace + ":" + fleetv1alpha1.PushAgentServiceAccount
	h.GrantUser(t, pushAgent, rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters/status"}, Verbs: []string{"update"}})
	reporters := map[string]client.Client{"the agent": agent, "the push agent": h.ClientOf(t, pushAgent)}
	claims := func(count, bytes int) (list []clusterv1.ManagedClusterClaim) {
		for i := range count {
			list = append(list, clusterv1.ManagedClusterClaim{Name: fmt.Sprint("claim-", i), Value: strings.Repeat("x", bytes)})
		}
		return list
	}
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Filled", Message: strings.Repeat("x", 30<<10), LastTransitionTime: metav1.Now(),
		}
	}
	resources := clusterv1.ResourceList{}
	for key := range manyKeys(1000, 0) {
		resources[clusterv1.ResourceName(key)] = resource.MustParse("1")
	}
	for what, c := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		why    string
	}{
		"many claims":  {func(mc *clusterv1.ManagedCluster) { mc.Status.ClusterClaims = claims(5000, 1) }, "at most 2000 claims"},
		"large claims": {func(mc *clusterv1.ManagedCluster) { mc.Status.ClusterClaims = claims(1000, 1000) }, "at most 262144 bytes"},
		"conditions": {func(mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions = append(mc.Status.Conditions, condition("One"), condition("Two"), condition("Three"))
		}, "64 conditions"},
		"capacity":    {func(mc *clusterv1.ManagedCluster) { mc.Status.Capacity = resources }, "resources in status.capacity"},
		"allocatable": {func(mc *clusterv1.ManagedCluster) { mc.Status.Allocatable = resources }, "resources in status.allocatable"},
		"a version":   {func(mc *clusterv1.ManagedCluster) { mc.Status.Version.Kubernetes = strings.Repeat("1", 1000) }, "at most 256 bytes"},
		"no word of its acceptance": {func(mc *clusterv1.ManagedCluster) {
			meta.RemoveStatusCondition(&mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
		}, "that are the hub's"},
		"its deletion": {func(mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
				Type: clusterv1.ManagedClusterConditionDeleting, Status: metav1.ConditionTrue, Reason: "Deleted", LastTransitionTime: metav1.Now(),
			})
		}, "that are the hub's"},
		"a namespace that no set requests": {func(mc *clusterv1.ManagedCluster) {
			mc.Status.ManagedNamespaces = append(mc.Status.ManagedNamespaces, clusterv1.ClusterSetManagedNamespaceConfig{
				ClusterSet: spaces, ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: "another"},
			})
		}, "may add no entries to status.managedNamespaces"},
		"conditions of a namespace": {func(mc *clusterv1.ManagedCluster) {
			mc.Status.ManagedNamespaces[0].Conditions = append(mc.Status.ManagedNamespaces[0].Conditions, condition("One"), condition("Two"), condition("Three"))
		}, "an entry of status.managedNamespaces has at most 8 conditions"},
	} {
		mc := h.ReadCluster(t, name)
		c.change(mc)
		for who, as := range reporters {
			h.RefusedInTurn(t, "a status of "+who+" with "+what, func(ctx context.Context) error {
				reported := mc.DeepCopy()
				reported.ResourceVersion = h.ReadClusterIn(ctx, t, name).ResourceVersion
				return as.Status().Update(ctx, reported)
			}, c.why)
		}
	}
	for what, c := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		why    string
	}{
		"labels": {func(mc *clusterv1.ManagedCluster) { maps.Copy(mc.Labels, manyKeys(1000, 63)) }, "256 labels"},
		"annotations": {func(mc *clusterv1.ManagedCluster) {
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, hub.OwnPrefix+"x", strings.Repeat("x", 100<<10))
		}, "256 annotations"},
		"a certificate": {func(mc *clusterv1.ManagedCluster) {
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://x:6443", CABundle: make([]byte, 64<<10)}}
		}, "managedClusterClientConfigs of together"},
	} {
		hub.RefusedWith(t, what, h.ChangeAs(t.Context(), t, agent, name, c.change), c.why)
	}
	// API servers note ten that have updated an object, and any number that have applied.
	hub.RefusedWith(t, "others that have applied", h.ChangeAs(t.Context(), t, agent, name, func(mc *clusterv1.ManagedCluster) {
		mc.ManagedFields = append(mc.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "other", Operation: metav1.ManagedFieldsOperationApply, APIVersion: clusterv1.GroupVersion.String(), Time: &metav1.Time{Time: time.Unix(1, 0)},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:hubAcceptsClient":{}}}`),
		})
	}), "that others have applied fields")

	for owner, may := range map[string]bool{fleetv1alpha1.FieldOwnerClusterStatus: true, fleetv1alpha1.FieldOwnerClusterLabels: true, "other": false} {
		says := []metav1.Condition{{Type: "Of" + strings.ReplaceAll(owner, "-", ""), Status: metav1.ConditionTrue, Reason: "Reported", LastTransitionTime: metav1.Now()}}
		err := conditions.ApplyStatus(t.Context(), agent, h.ReadCluster(t, name), owner, says, nil)
		if may && err != nil || !may && !apierrors.IsInvalid(err) {
			t.Errorf("as %q the agent reports a condition: %v", owner, err)
		}
	}

	// As "capstan deny --revoke" does.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":false},"metadata":{"managedFields":[{}]}}`))
	mc := h.ReadCluster(t, name)
	if err := h.Client.Patch(t.Context(), mc, patch); err != nil || mc.Spec.HubAcceptsClient {
		t.Errorf("an administrator cannot deny the cluster: %v", err)
	}
	if left := len(mc.ManagedFields); left > 1 {
		t.Errorf("%d entries say who has written what, want none but that of the administrator", left)
	}
}

// TestAMemberLeavesRoomInItsClusterConnection has an agent report so much that there is no room in its
// ClusterConnection for what an administrator writes there.
func TestAMemberLeavesRoomInItsClusterConnection(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "reporting"
	h.JoinWithLabels(t, name, nil)
	h.ReadConnection(t.Context(), t, name)
	agent := h.AgentClient(t, name)
	report := func(status fleetv1alpha1.ClusterConnectionStatus) error {
		text, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			t.Fatal(err)
		}
		connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return agent.Status().Patch(t.Context(), connection, client.RawPatch("application/merge-patch+json", text))
	}
	serves := func(groups, resources, bytes int) (status fleetv1alpha1.ClusterConnectionStatus) {
		for g := range groups {
			served := fleetv1alpha1.APIEnablement{GroupVersion: fmt.Sprintf("group-%d.example.com/v1", g)}
			for r := range resources {
				served.Resources = append(served.Resources, fleetv1alpha1.APIResource{Name: fmt.Sprintf("%0*d", bytes, r), Kind: fmt.Sprintf("%0*d", bytes, r)})
			}
			status.APIEnablements = append(status.APIEnablements, served)
		}
		return status
	}
	var says []metav1.Condition
	for i := range 3 {
		says = append(says, metav1.Condition{
			Type: fmt.Sprint("Of", i), Status: metav1.ConditionTrue, Reason: "Filled", Message: strings.Repeat("x", 30<<10), LastTransitionTime: metav1.Now(),
		})
	}
	room := fleetv1alpha1.ResourceList{}
	for key := range manyKeys(1000, 0) {
		room[key] = resource.MustParse("1")
	}
	long := serves(1, 1, 10)
	long.APIEnablements[0].GroupVersion = strings.Repeat("x", 700_000)
	for what, c := range map[string]struct {
		status fleetv1alpha1.ClusterConnectionStatus
		why    string
	}{
		"many resources":        {serves(100, 200, 5), "at most 5000 resources"},
		"long names":            {serves(100, 40, 50), "at most 262144 bytes"},
		"a group of a megabyte": {long, "at most 262144 bytes"},
		"conditions":            {fleetv1alpha1.ClusterConnectionStatus{Conditions: says}, "64 conditions"},
		"an identity":           {fleetv1alpha1.ClusterConnectionStatus{ID: strings.Repeat("x", 1000)}, "at most 256 bytes"},
		"what nodes have":       {fleetv1alpha1.ClusterConnectionStatus{ResourceSummary: &fleetv1alpha1.ResourceSummary{Allocatable: room}}, "resourceSummary.allocatable"},
		"what pods ask for":     {fleetv1alpha1.ClusterConnectionStatus{ResourceSummary: &fleetv1alpha1.ResourceSummary{Allocating: room}}, "resourceSummary.allocating"},
	} {
		hub.RefusedWith(t, "a report of "+what, report(c.status), c.why)
	}
	if err := report(serves(100, 50, 25)); err != nil {
		t.Errorf("a large cluster may not report what it serves: %v", err)
	}
	// The API server notes the names of all fields for each who applies them.
	filled := fleetv1alpha1.ResourceList{}
	for i := range 200 {
		filled[fmt.Sprintf("example.com/%028d", i)] = resource.MustParse("1")
	}
	apply := func(manager string) error {
		text, err := json.Marshal(map[string]any{
			"apiVersion": fleetv1alpha1.GroupVersion.String(), "kind": "ClusterConnection", "metadata": map[string]any{"name": name},
			"status": fleetv1alpha1.ClusterConnectionStatus{ResourceSummary: &fleetv1alpha1.ResourceSummary{
				Capacity: filled, Allocatable: filled, Allocating: filled, Allocated: filled,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return agent.Status().Patch(t.Context(), connection, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner(manager), client.ForceOwnership)
	}
	if err := apply("one"); err != nil {
		t.Errorf("an agent may not report as many resources as it may: %v", err)
	}
	hub.RefusedWith(t, "a report by another manager", apply("another"), "grow beyond 65536 bytes")
}

// TestATokenIsNotSentElsewhereByWhoMayNotReadIt has somebody who may write ClusterConnections, but
// read no Secret, have the token of a Push cluster sent to a server of his own.
func TestATokenIsNotSentElsewhereByWhoMayNotReadIt(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name, writer, reader = "pushed", "connection-writer", "connection-reader"
	writes := rbacv1.PolicyRule{
		APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, Verbs: []string{"create", "get", "update", "patch", "delete"},
	}
	h.GrantUser(t, writer, writes)
	h.GrantUser(t, reader, writes, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	as, asReader := h.ClientOf(t, writer), h.ClientOf(t, reader)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	connection.Spec.SyncMode, connection.Spec.APIEndpoint = fleetv1alpha1.SyncModePush, "https://member.example.com:6443"
	why := "requires to be allowed to get the Secret " + name + "/"
	hub.RefusedWith(t, "a connection", as.Create(t.Context(), connection.DeepCopy()), why+fleetv1alpha1.DefaultSecretName)
	if err := asReader.Create(t.Context(), connection.DeepCopy()); err != nil {
		t.Fatalf("who may read the token may not use it: %v", err)
	}
	for what, patch := range map[string]string{
		"another server":  `{"spec":{"apiEndpoint":"https://attacker.example.com"}}`,
		"a proxy":         `{"spec":{"proxyURL":"http://attacker.example.com"}}`,
		"another header":  `{"spec":{"proxyURL":"http://proxy.example.com","proxyHeader":{"X":"y"}}}`,
		"no verification": `{"spec":{"insecureSkipTLSVerification":true}}`,
		"another Secret":  `{"spec":{"secretRef":{"name":"bank"}}}`,
	} {
		hub.RefusedWith(t, what, as.Patch(t.Context(), connection.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))), why)
		if err := asReader.Patch(t.Context(), connection.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll); err != nil {
			t.Errorf("%s: who may read the token may not: %v", what, err)
		}
	}
	region := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"region":"eu"}}`))
	if err := as.Patch(t.Context(), connection.DeepCopy(), region); err != nil {
		t.Errorf("what is not about the token needs the right to read it: %v", err)
	}
}
