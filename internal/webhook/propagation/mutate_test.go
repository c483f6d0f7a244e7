// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	sigsyaml "sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

func raw(t *testing.T, manifest string) runtime.RawExtension {
	t.Helper()
	if manifest == "" {
		return runtime.RawExtension{}
	}
	content, err := sigsyaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: content}
}

func TestWhatIsLeftOpenIsFilledIn(t *testing.T) {
	const policyID = "metadata: {labels: {propagationpolicy.karmada.io/permanent-id: old}}"
	for name, c := range map[string]struct {
		reason, resource, old, object string
		// want is the patch.
		want string
	}{
		"a new policy": {
			resource: propagationPolicies, object: "metadata: {name: a}\nspec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]}",
			want: `[{"op":"add","path":"/metadata/labels","value":{"propagationpolicy.karmada.io/permanent-id":"new"}},` +
				`{"op":"add","path":"/metadata/finalizers","value":["karmada.io/propagation-policy-controller"]},` +
				`{"op":"add","path":"/spec/resourceSelectors/0/namespace","value":"shop"}]`,
		},
		"a copy of a policy": {
			reason: "objects that the original claims are not the copy's", resource: clusterPropagationPolicies,
			object: "metadata: {labels: {clusterpropagationpolicy.karmada.io/permanent-id: old}, finalizers: [karmada.io/cluster-propagation-policy-controller]}\n" +
				"spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]}",
			want: `[{"op":"add","path":"/metadata/labels/clusterpropagationpolicy.karmada.io~1permanent-id","value":"new"}]`,
		},
		"a policy that was replaced": {
			reason: "who writes the manifest again does not know the ID", resource: propagationPolicies, old: policyID,
			object: "metadata: {labels: {a: b}}\nspec: {resourceSelectors: []}",
			want:   `[{"op":"add","path":"/metadata/labels/propagationpolicy.karmada.io~1permanent-id","value":"old"}]`,
		},
		"a policy that goes": {
			reason: "nothing may be put onto it again", resource: propagationPolicies, old: "metadata: {}",
			object: "metadata: {deletionTimestamp: 2030-01-02T03:04:05Z}\nspec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]}", want: `null`,
		},
		"services of other clusters": {
			resource: propagationPolicies, old: policyID,
			object: policyID + "\nspec: {resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, namespace: shop}]}",
			want:   `[{"op":"add","path":"/spec/propagateDeps","value":true}]`,
		},
		"divided replicas": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {placement: {replicaScheduling: {replicaSchedulingType: Divided}}}",
			want: `[{"op":"add","path":"/spec/placement/replicaScheduling/replicaDivisionPreference","value":"Weighted"}]`,
		},
		"duplicated replicas": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {placement: {replicaScheduling: {replicaSchedulingType: Duplicated}}}", want: `null`,
		},
		"spread by region": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {placement: {spreadConstraints: [{spreadByField: region, maxGroups: 2}]}}",
			want: `[{"op":"add","path":"/spec/placement/spreadConstraints/-","value":{"minGroups":1,"spreadByField":"cluster"}},` +
				`{"op":"add","path":"/spec/placement/spreadConstraints/0/minGroups","value":1}]`,
		},
		"spread by label": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {placement: {spreadConstraints: [{spreadByLabel: rack, minGroups: 2}]}}", want: `null`,
		},
		"spread by nothing": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {placement: {spreadConstraints: [{minGroups: 2}]}}",
			want: `[{"op":"add","path":"/spec/placement/spreadConstraints/0/spreadByField","value":"cluster"}]`,
		},
		"failover": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {failover: {application: {decisionConditions: {}, purgeMode: Graciously}}}",
			want: `[{"op":"add","path":"/spec/failover/application/gracePeriodSeconds","value":600}]`,
		},
		"failover at once": {
			resource: propagationPolicies, old: policyID, object: policyID + "\nspec: {failover: {application: {decisionConditions: {}, purgeMode: Directly}}}", want: `null`,
		},
		"an override policy": {
			resource: overridePolicies, object: "spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: v1, kind: Secret, namespace: other}]}",
			want: `[{"op":"add","path":"/spec/resourceSelectors/0/namespace","value":"shop"}]`,
		},
		"a binding": {
			resource: resourceBindings, object: "metadata: {labels: {a: b}}", want: `[{"op":"add","path":"/metadata/labels/resourcebinding.karmada.io~1permanent-id","value":"new"}]`,
		},
		"a binding with an ID": {
			reason: "the works that it is restored with have it, too", resource: clusterResourceBindings,
			object: "metadata: {labels: {clusterresourcebinding.karmada.io/permanent-id: old}}", want: `null`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := admissionv1.AdmissionRequest{Namespace: "shop", Operation: admissionv1.Create, Object: raw(t, c.object), OldObject: raw(t, c.old)}
			if c.old != "" {
				request.Operation = admissionv1.Update
			}
			webhook := mutatingWebhooks(func() string { return "new" })[mutatePath+c.resource]
			response := webhook.Handler.Handle(t.Context(), admission.Request{AdmissionRequest: request})
			if !response.Allowed {
				t.Fatalf("it is refused: %+v", response.Result)
			}
			if diff := cmp.Diff(operations(t, c.want), patched(t, response)); diff != "" {
				t.Errorf("%s: patch (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// operations are those of a patch by what they are and where.
func operations(t *testing.T, patch string) map[string]any {
	t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(patch), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, o := range list {
		all[o["op"].(string)+" "+o["path"].(string)] = o["value"]
	}
	return all
}

func patched(t *testing.T, response admission.Response) map[string]any {
	t.Helper()
	content, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	return operations(t, string(content))
}

func TestWhatCannotBeReadIsTold(t *testing.T) {
	webhook := mutatingWebhooks(func() string { return "new" })[mutatePath+propagationPolicies]
	for name, request := range map[string]admissionv1.AdmissionRequest{
		"the object":    {Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"spec":1}`)}},
		"the older one": {Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(`{}`)}, OldObject: runtime.RawExtension{Raw: []byte(`[]`)}},
	} {
		if response := webhook.Handler.Handle(t.Context(), admission.Request{AdmissionRequest: request}); response.Allowed || response.Result.Code != 400 {
			t.Errorf("%s: got %+v", name, response.Result)
		}
	}
}

// TestTheMutatorParsesNoHostileQuantity is sent what a tenant can send: it is asked before
// the API server compares the object with its schema. Whoever parses the quantity does so
// for hours.
func TestTheMutatorParsesNoHostileQuantity(t *testing.T) {
	m := &objectMutator[*workv1alpha2.ResourceBinding]{fresh: func() *workv1alpha2.ResourceBinding { return &workv1alpha2.ResourceBinding{} }}
	response := m.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Name: "b", Namespace: "shop", Operation: admissionv1.Create,
		Object: raw(t, `spec: {replicaRequirements: {resourceRequest: {cpu: "1e-2000000000"}}}`),
	}})
	if response.Allowed || response.Result.Code != 400 || !strings.Contains(response.Result.Message, `spec.replicaRequirements.resourceRequest[cpu]: "1e-2000000000" is not a quantity`) {
		t.Errorf("the answer is %+v", response.Result)
	}
}

// TestALongListIsNotCompared is sent what a tenant can send. Whoever compares it as it was
// with it as it is writes the path of each item, with the long name before it: a gigabyte
// here, and 500 for an object of 1.5 MB.
func TestALongListIsNotCompared(t *testing.T) {
	const name, items, bytesMax = 100_000, 10_000, 50 << 20
	value := `{"` + strings.Repeat("n", name) + `":[` + strings.Repeat("0,", items-1) + `0]}`
	object := `{"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"ConfigMap"}],"overriders":{"plaintext":[{"path":"/data","operator":"add","value":` + value + `}]}}}`
	webhook := mutatingWebhooks(func() string { return "new" })[mutatePath+overridePolicies]
	allocated := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			response := webhook.Handler.Handle(b.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
			}})
			if len(response.Patches) != 1 {
				b.Fatalf("the answer is %+v", response)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > bytesMax {
		t.Errorf("the webhook takes %d bytes for a list of %d items, want at most %d", allocated, items, bytesMax)
	}
}
