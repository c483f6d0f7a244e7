// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// karmadaReasons are the reasons that Karmada records events with, but for those of
// autoscaling, which are Kubernetes's. A name with a star stands for two: with Succeed and
// with Failed in its place.
var karmadaReasons = []string{
	"CreateExecutionSpace*", "RemoveExecutionSpace*", "TaintCluster*", "SyncImpersonationConfig*",
	"Sync*", "WorkDispatching", "CleanupWorkFailed", "ReflectStatus*", "InterpretHealth*",
	"SyncWork*", "AggregateStatus*", "ScheduleBinding*", "DescheduleBinding*", "EvictWorkloadFromCluster*",
	"ApplyPolicy*", "ApplyOverridePolicy*", "PreemptPolicy*", "GetDependencies*", "GetReplicas*", "GetComponents*",
	"SyncScheduleResultToDependencies*", "DependencyPolicyConflict",
	"SyncFederatedResourceQuota*", "CollectFederatedResourceQuotaStatus*", "CollectOverallStatus*",
	"SyncService*", "SyncDerivedService*", "DispatchEndpointSlice*", "ClusterNotFound", "APIIncompatible",
}

// pageOfDifferences says which of the reasons are never recorded.
const pageOfDifferences = "../../../docs/from-karmada.md"

// provocation is what makes the hub record an event, and what the event is about.
type provocation struct {
	reason string
	about  []string // KIND NAMESPACE/NAME
	do     func(harness.World, *refuser)
}

// TestEveryReasonOfKarmada provokes an event of each reason that Karmada has. Those that
// are never recorded are in the docs.
func TestEveryReasonOfKarmada(t *testing.T) {
	page, err := os.ReadFile(pageOfDifferences)
	expect.NoError(t, err)
	const web, binding, work = "Deployment default/web", "ResourceBinding default/web-deployment", "Work karmada-es-member1/"
	sent := deliver.WorkName("Deployment", metav1.NamespaceDefault, "web")
	judged := "Work karmada-es-member3/" + deliver.WorkName("ConfigMap", metav1.NamespaceDefault, "judged")
	both := func(object, kind string) []string {
		return []string{kind + " default/" + object, "ResourceBinding default/" + object + "-" + strings.ToLower(kind)}
	}
	provocations := []provocation{ // in the order in which they happen: some make what later ones need
		{"CreateExecutionSpaceSucceed", []string{"Cluster /member1"}, nil},
		{"CreateExecutionSpaceFailed", []string{"Cluster /" + strings.Repeat("x", 60)}, func(w harness.World, _ *refuser) { w.AcceptCluster(strings.Repeat("x", 60)) }},
		{"ApplyPolicySucceed", []string{web}, func(w harness.World, _ *refuser) {
			p := named("web", "Deployment", "web")
			p.Spec.PropagateDeps = true
			w.CreateAll(override("web", "/metadata/labels/by"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
			d := harness.Deployment("web", 2)
			d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}}}
			w.CreateAll(p, d)
		}},
		{"GetReplicasSucceed", []string{web}, nil},
		{"ScheduleBindingSucceed", []string{web, binding}, nil},
		{"SyncWorkSucceed", []string{web, binding}, nil},
		{"ApplyOverridePolicySucceed", []string{web}, nil},
		{"WorkDispatching", []string{work + sent}, nil},
		{"SyncSucceed", []string{web, work + sent}, nil},
		{"ReflectStatusSucceed", []string{work + sent}, nil},
		{"InterpretHealthSucceed", []string{work + sent}, nil},
		{"AggregateStatusSucceed", []string{web, binding}, nil},
		{"GetDependenciesSucceed", []string{web, binding}, nil},
		{"SyncScheduleResultToDependenciesSucceed", []string{binding}, nil},
		{"DependencyPolicyConflict", []string{"ResourceBinding default/settings-configmap"}, func(w harness.World, _ *refuser) {
			p, d := named("other", "Deployment", "other"), harness.Deployment("other", 1)
			p.Spec.PropagateDeps, p.Spec.ConflictResolution = true, policyv1alpha1.ConflictOverwrite
			d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}}}
			w.CreateAll(p, d)
		}},
		{"SyncFailed", []string{web, work + sent}, func(w harness.World, _ *refuser) {
			w.AgentSays("member1", sent, func(m *workv1.ManifestWork) {
				m.Status.Conditions[0].Status, m.Status.Conditions[0].Message = metav1.ConditionFalse, "the quota is used up"
			})
		}},
		{"ReflectStatusFailed", []string{judged}, func(w harness.World, r *refuser) {
			w.JoinMember("member3") // its agent reads the scripts
			template("judged")(w, r)
		}},
		{"InterpretHealthFailed", []string{judged}, nil},
		{"ApplyOverridePolicyFailed", []string{"Deployment default/wrong"}, func(w harness.World, _ *refuser) {
			w.CreateAll(override("wrong", "/spec/nothing/here"), named("wrong", "Deployment", "wrong"), harness.Deployment("wrong", 1))
		}},
		{"ScheduleBindingFailed", both("nowhere", "Deployment"), func(w harness.World, _ *refuser) {
			p := named("nowhere", "Deployment", "nowhere")
			p.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"missing"}}
			w.CreateAll(p, harness.Deployment("nowhere", 1))
		}},
		{"SyncWorkFailed", both("unsent", "Deployment"), func(w harness.World, r *refuser) {
			r.refuse(http.MethodPost, "/manifestworks", `"name":"unsent"`)
			w.CreateAll(named("unsent", "Deployment", "unsent"), harness.Deployment("unsent", 1))
		}},
		{"AggregateStatusFailed", []string{"Deployment default/unsummed"}, func(w harness.World, r *refuser) {
			r.refuse(http.MethodPatch, "/deployments/unsummed/status", "")
			w.CreateAll(named("unsummed", "Deployment", "unsummed"), harness.Deployment("unsummed", 1))
		}},
		{"GetReplicasFailed", []string{"ConfigMap default/uncounted"}, template("uncounted")},
		{"ApplyPolicyFailed", []string{"ConfigMap default/uncounted"}, nil},
		{"GetComponentsFailed", []string{"ConfigMap default/unparted"}, template("unparted")},
		{"GetComponentsSucceed", []string{"ConfigMap default/parted"}, template("parted")},
		{"GetDependenciesFailed", both("unread", "ConfigMap"), template("unread")},
		{"SyncScheduleResultToDependenciesFailed", []string{"ResourceBinding default/needy-deployment"}, func(w harness.World, r *refuser) {
			r.refuse(http.MethodPost, "/resourcebindings", `"name":"unbindable"`)
			d := harness.Deployment("needy", 1)
			d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "unbindable"},
			}}}
			p := named("needy", "Deployment", "needy")
			p.Spec.PropagateDeps = true
			w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unbindable"}}, p, d)
		}},
		{"PreemptPolicyFailed", []string{"Deployment default/kept"}, func(w harness.World, r *refuser) {
			holder := named("kept", "Deployment", "kept")
			holder.Spec.Placement = only("member1")
			w.CreateAll(holder, harness.Deployment("kept", 1))
			w.RunsOn("kept", map[string]int32{"member1": 1})
			r.refuse(http.MethodPatch, "/deployments/kept", "")
			taker := named("taker", "Deployment", "kept")
			taker.Spec.Priority, taker.Spec.Preemption = new(int32(5)), policyv1alpha1.PreemptAlways
			w.CreateAll(taker)
		}},
		{"PreemptPolicySucceed", []string{"Deployment default/kept"}, func(_ harness.World, r *refuser) { r.relent() }},
		{"CleanupWorkFailed", []string{"ResourceBinding default/kept-deployment"}, func(w harness.World, r *refuser) {
			r.refuse(http.MethodDelete, "/manifestworks/"+deliver.WorkName("Deployment", metav1.NamespaceDefault, "kept"), "")
			if err := w.Delete(w.Context(), harness.Deployment("kept", 1)); err != nil {
				w.Fatal(err)
			}
		}},
		{"RemoveExecutionSpaceFailed", []string{"Cluster /member2"}, func(w harness.World, _ *refuser) {
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-member2"}}
			if err := w.Delete(w.Context(), space); err != nil {
				w.Fatal(err)
			}
			w.ChangeObject(space, func() {}) // it is read
			space.Status.Conditions = []corev1.NamespaceCondition{{
				Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionTrue, Message: "an object stays", LastTransitionTime: metav1.Now(),
			}}
			if err := w.Status().Update(w.Context(), space); err != nil {
				w.Fatal(err)
			}
		}},
		{"RemoveExecutionSpaceSucceed", []string{"Cluster /member2"}, func(w harness.World, _ *refuser) {
			space := &corev1.Namespace{}
			if err := w.Get(w.Context(), client.ObjectKey{Name: "karmada-es-member2"}, space); err != nil {
				w.Fatal(err)
			}
			space.Spec.Finalizers = nil
			if err := w.SubResource("finalize").Update(w.Context(), space); err != nil {
				w.Fatal(err)
			}
		}},
	}
	provoked := sets.New[string]()
	for _, p := range provocations {
		provoked.Insert(p.reason)
	}
	for _, reason := range karmadaReasons {
		for _, end := range []string{"Succeed", "Failed"} {
			one := strings.Replace(reason, "*", end, 1)
			never := strings.Contains(string(page), "`"+reason+"`")
			if provoked.Has(one) == never {
				t.Errorf("reason %s: this test provokes it: %t; %s says that it is never recorded: %t", one, provoked.Has(one), pageOfDifferences, never)
			}
		}
	}

	w, r := harness.NewHub(t, servers), &refuser{}
	w.Options.Gates = harness.Gates(t, "KarmadaEvents=true", "PropagationPolicyPreemption=true", "MultiplePodTemplatesScheduling=true")
	w.StartControllers(r.wrap)
	for _, name := range []string{"member1", "member2"} {
		w.JoinCluster(name)
	}
	w.HasEvent(metav1.NamespaceDefault, "member2", "CreateExecutionSpaceSucceed", "")
	w.CustomizeKind("fixtures", "v1", "ConfigMap", configv1alpha1.CustomizationRules{
		ReplicaResource: rule("function GetReplicas(obj)\n if obj.metadata.name == 'uncounted' then error('no count') end\n return 0\nend"),
		ComponentResource: rule("function GetComponents(obj)\n if obj.metadata.name == 'unparted' then error('no parts') end\n" +
			" if obj.metadata.name == 'parted' then return {{name = 'a', replicas = 1}, {name = 'b', replicas = 1}} end\n return {}\nend"),
		DependencyInterpretation: rule("function GetDependencies(obj)\n if obj.metadata.name == 'unread' then error('no needs') end\n return {}\nend"),
		StatusReflection:         rule("function ReflectStatus(obj)\n if obj.metadata.name == 'judged' then error('no status') end\n return {}\nend"),
		HealthInterpretation:     rule("function InterpretHealth(obj)\n if obj.metadata.name == 'judged' then error('no health') end\n return true\nend"),
	})
	for _, p := range provocations {
		if p.do != nil {
			p.do(w, r)
		}
		for _, about := range p.about {
			w.HasRecorded(p.reason, about)
		}
	}
}

// named returns a policy that sends one object of namespace default everywhere.
func named(name, kind, object string) *policyv1alpha1.PropagationPolicy {
	p := harness.Policy(name, policyv1alpha1.Placement{})
	of := map[string]string{"Deployment": "apps/v1", "ConfigMap": "v1"}
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: of[kind], Kind: kind, Name: object}
	return p
}

// override returns a policy that adds a text to a Deployment at a path.
func override(deployment, path string) *policyv1alpha1.OverridePolicy {
	o := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: deployment}}
	o.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment}}
	o.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
		Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte(`"x"`)}}},
	}}}
	return o
}

// template returns what makes a ConfigMap and a policy for it and for what it needs.
func template(name string) func(harness.World, *refuser) {
	return func(w harness.World, _ *refuser) {
		p := named(name, "ConfigMap", name)
		p.Spec.PropagateDeps = true
		w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}, p)
	}
}

// refuser stands between the controllers and the hub, and forbids some requests.
type refuser struct {
	mu    sync.Mutex
	rules []struct{ method, path, body string }
}

// refuse forbids requests of a method whose path ends as given, and whose body contains
// something.
func (r *refuser) refuse(method, path, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, struct{ method, path, body string }{method, path, body})
}

// relent forbids nothing any more.
func (r *refuser) relent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = nil
}

func (r *refuser) refuses(method, path string, body []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.rules {
		if method == rule.method && strings.HasSuffix(path, rule.path) && bytes.Contains(body, []byte(rule.body)) {
			return true
		}
	}
	return false
}

func (r *refuser) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		var body []byte
		if request.Body != nil {
			var err error
			if body, err = io.ReadAll(request.Body); err != nil {
				return nil, err //nolint:wrapcheck // it is the transport's own
			}
			_ = request.Body.Close() // it is read to its end
			request.Body = io.NopCloser(bytes.NewReader(body))
		}
		if r.refuses(request.Method, request.URL.Path, body) {
			return refusal(request, http.StatusForbidden, metav1.StatusReasonForbidden, "not today"), nil
		}
		return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
	})
}
