// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// interpreter is a webhook that says of ConfigMaps what the scripts of
// TestScriptsSayWhatAKindMeans say, and of Deployments how often it was asked.
type interpreter struct {
	*testing.T
	away atomic.Bool
	// asked counts the questions about Deployments.
	asked atomic.Int32
}

func (i *interpreter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	question := configv1alpha1.ResourceInterpreterContext{}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		i.Errorf("the question cannot be read: %v", err)
	}
	if i.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	question.Response = i.answer(question.Request)
	question.Request = nil
	if err := json.NewEncoder(w).Encode(question); err != nil {
		i.Errorf("the answer cannot be written: %v", err)
	}
}

func (i *interpreter) answer(of *configv1alpha1.ResourceInterpreterRequest) *configv1alpha1.ResourceInterpreterResponse {
	answer := &configv1alpha1.ResourceInterpreterResponse{UID: of.UID, Successful: true}
	object := corev1.ConfigMap{}
	if of.Kind.Kind == "ConfigMap" {
		if err := json.Unmarshal(of.Object.Raw, &object); err != nil {
			i.Errorf("the object cannot be read: %v", err)
		}
	}
	switch of.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		workers, err := strconv.ParseInt(object.Data["workers"], 10, 32)
		if err != nil {
			answer.Successful, answer.Status = false, &configv1alpha1.RequestStatus{Message: "workers is no number"}
		}
		answer.Replicas = new(int32(workers))
	case configv1alpha1.InterpreterOperationReviseReplica:
		answer.PatchType = new(configv1alpha1.PatchTypeJSONPatch)
		answer.Patch = fmt.Appendf(nil, `[{"op":"replace","path":"/data/workers","value":"%d"}]`, *of.DesiredReplicas)
	case configv1alpha1.InterpreterOperationInterpretDependency:
		answer.Dependencies = []configv1alpha1.DependentObjectReference{{APIVersion: "v1", Kind: "Secret", Namespace: of.Namespace, Name: object.Data["key"]}}
	case configv1alpha1.InterpreterOperationAggregateStatus:
		i.asked.Add(1)
		answer.PatchType = new(configv1alpha1.PatchTypeJSONPatch)
		answer.Patch = fmt.Appendf(nil, `[{"op":"add","path":"/status","value":{"collisionCount":%d}}]`, 10+len(of.AggregatedStatus))
	default:
		i.Errorf("the hub asks for %s", of.Operation)
	}
	return answer
}

func operationsOf(group, kind string, operations ...configv1alpha1.InterpreterOperation) configv1alpha1.RuleWithOperations {
	return configv1alpha1.RuleWithOperations{Operations: operations, Rule: configv1alpha1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Kinds: []string{kind}}}
}

// TestWebhooksSayWhatAKindMeans divides ConfigMaps, which have no replicas but by a
// webhook that is away at first.
func TestWebhooksSayWhatAKindMeans(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	answers := &interpreter{T: t}
	answers.away.Store(true)
	server := httptest.NewTLSServer(answers)
	defer server.Close()
	w.ServeWebhooks("workers", server, operationsOf("", "ConfigMap",
		configv1alpha1.InterpreterOperationInterpretReplica, configv1alpha1.InterpreterOperationReviseReplica, configv1alpha1.InterpreterOperationInterpretDependency))
	placed := harness.Policy("workers", policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}})
	placed.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "workers"}
	placed.Spec.PropagateDeps = true
	workers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "workers"}, Data: map[string]string{"workers": "4", "key": "token"}}
	w.CreateAll(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "token"}}, workers, placed)
	w.NamespaceHasEvent(metav1.NamespaceDefault, "ApplyPolicyFailed",
		`webhook "webhook-0.example.com" of ResourceInterpreterWebhookConfiguration "workers", InterpretReplica of ConfigMap "default/workers": it answers with status 503, want 200. Check the path`)

	// Other kinds go on, and nothing on the hub tells when the webhook is back.
	web := harness.Policy("web", policyv1alpha1.Placement{})
	w.CreateAll(harness.Deployment("web", 2), web)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	answers.away.Store(false)
	w.SendsWorkers(map[string]string{"member1": "2", "member2": "2"})
	w.SendsObjects("Secret", "member1/token", "member2/token")

	// A webhook for another kind changes nothing of this one.
	w.Eventually("all clusters have it", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "workers-configmap"}, b); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
	before := w.VersionsOf("workers-configmap")
	w.ServeWebhooks("sums", server, operationsOf("apps", "*", configv1alpha1.InterpreterOperationAggregateStatus))
	w.ScriptCounts(12)
	if after := w.VersionsOf("workers-configmap"); after != before {
		t.Errorf("what did not change was written: %s, before %s", after, before)
	}

	// What a script says goes before what a webhook says.
	script := w.CustomizeKind("more", "v1", "ConfigMap", configv1alpha1.CustomizationRules{ReplicaResource: rule("function GetReplicas(obj)\n return 8\nend")})
	w.SendsWorkers(map[string]string{"member1": "4", "member2": "4"})
	if err := w.Delete(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	w.SendsWorkers(map[string]string{"member1": "2", "member2": "2"})

	// What it declines to say is told in its words.
	w.ChangeObject(workers, func() { workers.Data["workers"] = "many" })
	w.NamespaceHasEvent(metav1.NamespaceDefault, "ApplyPolicyFailed", "it says: workers is no number")
	w.SendsWorkers(map[string]string{"member1": "2", "member2": "2"})
}

// TestWebhooksSayWhichPartsAnObjectHas asks for components, behind their gate.
func TestWebhooksSayWhichPartsAnObjectHas(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	(*w.Ended)()
	w.Options.Gates = harness.Gates(t, "MultiplePodTemplatesScheduling=true")
	server := httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
		question := configv1alpha1.ResourceInterpreterContext{}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Error(err)
		}
		if _, err := fmt.Fprintf(writer, `{"response":{"uid":%q,"successful":true,"components":[{"name":"main","replicas":1},{"name":"task","replicas":3}]}}`, question.Request.UID); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	w.ServeWebhooks("parts", server, operationsOf("", "ConfigMap", configv1alpha1.InterpreterOperationInterpretComponent))
	w.StartControllers()
	placed := harness.Policy("parts", policyv1alpha1.Placement{})
	placed.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "parts"}
	w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "parts"}}, placed)
	w.Eventually("the binding has the parts", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "parts-configmap"}, b); err != nil {
			return err
		}
		if len(b.Spec.Components) != 2 || b.Spec.Components[1].Name != "task" || b.Spec.Components[1].Replicas != 3 {
			return fmt.Errorf("its parts are %+v", b.Spec.Components)
		}
		return nil
	})
}
