// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// The namespace of somebody who may write whatever he likes there, and that of
// another one.
const tenant, victim = "tenant", "victim"

// TestATenantStaysInItsNamespace lets the user of a namespace try to send what is
// in another namespace or in none, or to change what others send: by policies,
// overrides, dependencies, names and marks. No webhook helps the controllers here.
func TestATenantStaysInItsNamespace(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	web, webs := harness.Deployment("web", 1), harness.Policy("web", only("member1"))
	web.Namespace, webs.Namespace = victim, victim
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: victim, Name: "keys"}}
	w.CreateAll(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}},
		keys,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "powers"}}, webs, web)
	w.AwaitApplied(victim, "web")
	before := w.WorkOf("member1", "web")

	w.CreateAll(greedy()...)
	w.CreateAll(forged(webs), elsewhere(), everything(), bound(keys))
	last := harness.Deployment("last", 1)
	last.Namespace = tenant
	w.CreateAll(last)
	w.AwaitApplied(tenant, "forged")
	w.AwaitApplied(tenant, "last")

	w.HasOnlyNamespace(tenant, "member2")
	w.HasBindings(victim, "web-deployment")
	w.HasBindings("")
	if after := w.WorkOf("member1", "web"); after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the work of the other namespace was changed: generation %d, then %d", before.Generation, after.Generation)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	if web.Annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace] != victim {
		t.Errorf("the object of the other namespace is claimed by %v", web.Annotations)
	}
}

// TestNoWorkGoesToWhatIsNoCluster lets a tenant name the namespaces of others for clusters
// in a binding, and have clusters that only ask to be accepted: neither his object nor his
// namespace is sent there, where works would keep the namespace from being deleted.
func TestNoWorkGoesToWhatIsNoCluster(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	mine, keys := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "keys"}}
	w.CreateAll(mine, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "asks"}}, keys,
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "asks"}})
	b := bound(keys)
	b.Name, b.Spec.Resource.Kind = "keys-configmap", "ConfigMap"
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}, {Name: victim}, {Name: metav1.NamespaceSystem}, {Name: "asks"}}
	w.CreateAll(b)
	for _, team := range []string{"", "a"} { // what is sent with the second one was looked at twice
		w.ChangeObject(mine, func() { mine.Labels = map[string]string{"team": team} })
		w.SendsNamespace(tenant, map[string]string{"member1": team})
	}
	w.Eventually("the binding says it of each of them", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		refused := 0
		for _, item := range b.Status.AggregatedStatus {
			if strings.Contains(item.AppliedMessage, deliver.ErrNoCluster.Error()) {
				refused++
			}
		}
		if refused != 3 {
			return fmt.Errorf("its status is %+v", b.Status.AggregatedStatus)
		}
		return nil
	})
	for _, cluster := range []string{victim, metav1.NamespaceSystem, "asks"} {
		if works := w.WorksOf(cluster); len(works) > 0 {
			t.Errorf("namespace %s has %d works, the first is %s", cluster, len(works), works[0].Name)
		}
	}
}

// TestAForgedBindingTakesNoRoom lets a tenant write a binding, for an object that does not
// exist, which asks for all the room of the fleet: others are placed as if it were not there.
func TestAForgedBindingTakesNoRoom(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.ReportRoom("member1", "6")
	w.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, harness.Policy("web", aggregated()), harness.Deployment("first", 1))
	w.RunsOn("first", map[string]int32{"member1": 1}) // the hub knows the room
	ghost, everywhere := bound(harness.Deployment("ghost", 5)), aggregated()
	ghost.Name, ghost.Spec.Clusters, ghost.Spec.Placement = "ghost-deployment", nil, &everywhere
	ghost.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: tenant, Name: "ghost", UID: "ghost"}
	ghost.Spec.Replicas, ghost.Spec.ReplicaRequirements = 5, &workv1alpha2.ReplicaRequirements{}
	missing := (*w.Running)[0].MissingSince("binding", client.ObjectKeyFromObject(ghost))
	w.CreateAll(ghost)
	w.Eventually("the controller has looked at it", func() error {
		if names := missing(); len(names) > 0 {
			return fmt.Errorf("it has not reconciled %v", names)
		}
		return nil
	})
	w.CreateAll(harness.Deployment("web", 5))
	w.RunsOn("web", map[string]int32{"member1": 5})
}

// TestAMemberGetsNoHoldOfABinding lets the agent of member1 write, into the works that it
// was sent, that they are of a binding, made of a kind that the hub does not serve: into
// that of another object, and then into that of the binding itself.
func TestAMemberGetsNoHoldOfABinding(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	web, webs := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	other, others := harness.Deployment("other", 1), harness.Policy("other", only("member1"))
	webs.Spec.ResourceSelectors[0].Name, others.Spec.ResourceSelectors[0].Name = "web", "other"
	w.CreateAll(webs, others, web, other)
	w.RunsOn("web", map[string]int32{"member1": 1, "member2": 1})
	w.RunsOn("other", map[string]int32{"member1": 1})
	forge := func(name string) {
		t.Helper()
		work := w.WorkOf("member1", name)
		change := []byte(`{"metadata":{"labels":{"` + workv1alpha2.LabelResourceBindingID + `":"forged"},` +
			`"annotations":{"` + workv1alpha2.AnnotationResourceBindingName + `":"web-deployment"}},` +
			`"spec":{"workload":{"manifests":[{"apiVersion":"example.io/v1","kind":"Gadget","metadata":{"namespace":"default","name":"web",` +
			`"annotations":{"` + workv1alpha2.AnnotationTemplateUID + `":"forged"}}}]}}}`)
		if err := w.Patch(t.Context(), &work, client.RawPatch(types.MergePatchType, change)); err != nil {
			t.Fatal(err)
		}
	}
	for replicas, name := range []string{"other", "web"} {
		forge(name)
		wanted := int32(replicas) + 2
		w.ChangeObject(web, func() { web.Spec.Replicas = &wanted })
		w.RunsOn("web", map[string]int32{"member1": wanted, "member2": wanted})
	}
	w.Remove(web)
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestAMemberKeepsAWork has the agent of a cluster never let go of what is deleted: the
// object goes, and what other clusters have of it, and the binding says who keeps it.
func TestAMemberKeepsAWork(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.AcceptCluster("keeper") // there is no agent
	web, webs := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	w.CreateAll(webs, web)
	w.Eventually("both clusters are sent it", func() error {
		if here, there := len(w.WorksOf("member1")), len(w.WorksOf("keeper")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and keeper %d", here, there)
		}
		return nil
	})
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.IsGone(web)
	w.Eventually("member1 has it no more", func() error {
		if works := w.WorksOf("member1"); len(works) > 0 {
			return fmt.Errorf("it has %d works", len(works))
		}
		return nil
	})
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"These clusters have not released it for more than 30s: keeper.")
	work := w.WorkOf("keeper", "web")
	w.ChangeObject(&work, func() { work.Finalizers = nil })
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestAMemberTakesTheMarksOff has the agent of a cluster take off its work, again and again,
// all by which the hub knew whose it is. The others are told of as before, and it is written
// ever more seldom; when the agent stops, it is as it was.
func TestAMemberTakesTheMarksOff(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.JoinCluster("thief")
	web := harness.Deployment("web", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.RunsOn("web", map[string]int32{"member1": 1, "thief": 1})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	key := client.ObjectKey{Namespace: "thief", Name: deliver.WorkName("Deployment", web.Namespace, web.Name)}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			work := &workv1.ManifestWork{}
			if w.Get(ctx, key, work) == nil && len(work.Labels)+len(work.Annotations) > 0 {
				work.Labels, work.Annotations = nil, nil
				_ = w.Update(ctx, work) // it is tried again
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"keeps reverting what the hub writes to ManifestWork")
	w.ScaleDeployment(web, 2)
	w.HasHealth(web, "member1", workv1alpha2.ResourceHealthy)
	w.Eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas < 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
	stop()
	<-ended
	w.ScaleDeployment(web, 3) // what is new is written at once
	w.RunsOn("web", map[string]int32{"member1": 3, "thief": 3})
	w.Remove(web)
	w.HasWorks(0)
}

// TestAMemberPretendsThatAWorkIsAnothers has the agent of a cluster write into its work that
// it is somebody's, made of something else. That cluster alone is told of, also if a label
// says that the hub has made the work just now.
func TestAMemberPretendsThatAWorkIsAnothers(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.AcceptCluster("liar") // there is no agent
	web := harness.Deployment("web", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.Eventually("both clusters are sent it", func() error {
		if here, there := len(w.WorksOf("member1")), len(w.WorksOf("liar")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and liar %d", here, there)
		}
		return nil
	})
	work := w.WorkOf("liar", "web")
	w.ChangeObject(&work, func() {
		work.Annotations = nil
		delete(work.Labels, workv1alpha2.LabelResourceBindingID)
		work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web"}}`)
	})
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		`cluster "liar" has another ManifestWork`)
	w.ScaleDeployment(web, 2)
	w.Eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas != 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
}

// TestAnObjectAnewReachesTheOthers deletes an object of which a cluster never lets go, and
// makes it anew: the others get it, and the binding says who does not.
func TestAnObjectAnewReachesTheOthers(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.AcceptCluster("keeper") // there is no agent
	web := harness.Deployment("web", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.Eventually("both clusters are sent it", func() error {
		if here, there := len(w.WorksOf("member1")), len(w.WorksOf("keeper")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and keeper %d", here, there)
		}
		return nil
	})
	w.Remove(web)
	w.Eventually("the work of keeper is deleted", func() error {
		if work := w.WorkOf("keeper", "web"); work.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is %+v", work.ObjectMeta)
		}
		return nil
	})
	kept := w.WorkOf("keeper", "web")
	web = harness.Deployment("web", 2)
	w.CreateAll(web)
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		`cluster "keeper" has not released the ManifestWork`)
	w.Eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas != 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
	w.ChangeObject(&kept, func() { kept.Finalizers = nil })
	w.Eventually("keeper is sent the new object", func() error {
		works := w.WorksOf("keeper")
		if len(works) != 1 || works[0].UID == kept.UID || w.ObjectOf(&works[0]).GetAnnotations()[workv1alpha2.AnnotationTemplateUID] != string(web.UID) {
			return fmt.Errorf("it has %d works", len(works))
		}
		return nil
	})
}

// TestWhatIsNeededAnewReachesTheOthers has a cluster never let go of a ConfigMap that goes
// along with a Deployment, until that needs it no more. Then it is needed again.
func TestWhatIsNeededAnewReachesTheOthers(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.AcceptCluster("keeper") // there is no agent
	web, webs := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	webs.Spec.PropagateDeps = true
	needs := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}}}}
	web.Spec.Template.Spec.Containers[0].EnvFrom = needs
	w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}}, webs, web)
	w.SendsObjects("ConfigMap", "member1/page", "keeper/page")
	w.ChangeObject(web, func() { web.Spec.Template.Spec.Containers[0].EnvFrom = nil })
	w.SendsObjects("ConfigMap", "keeper/page")
	w.ChangeObject(web, func() { web.Spec.Template.Spec.Containers[0].EnvFrom = needs })
	w.SendsObjects("ConfigMap", "member1/page", "keeper/page")
}

// TestWorksOfAnEarlierObjectAreDeleted starts the controllers with a work that a controller
// has left of an object that had the name of another one: it is not taken over.
func TestWorksOfAnEarlierObjectAreDeleted(t *testing.T) {
	w := harness.NewHub(t, servers)
	w.JoinCluster("member1")
	web := harness.Deployment("web", 1)
	w.CreateAll(web, harness.Policy("web", policyv1alpha1.Placement{}))
	left := w.LostWorkOf("web", "earlier")
	left.Name = deliver.WorkName("Deployment", web.Namespace, web.Name)
	left.Finalizers = []string{workv1.FinalizerManifestWorkCleanup}
	w.CreateAll(left)
	w.StartControllers()
	w.RunsOn("web", map[string]int32{"member1": 1})
	if work := w.WorkOf("member1", "web"); work.UID == left.UID {
		t.Error("the work of the earlier object was taken over")
	}
}

// TestAnObjectDoesNotKeepItsPolicy has an object that is deleted and never goes, as whoever
// may write it has given it a finalizer. The policy that has claimed it can be deleted.
func TestAnObjectDoesNotKeepItsPolicy(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	web, webs := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	web.Finalizers = []string{"example.io/kept"}
	w.CreateAll(webs, web)
	w.RunsOn("web", map[string]int32{"member1": 1})
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), webs); err != nil {
		t.Fatal(err)
	}
	w.IsGone(webs)
	w.ChangeObject(web, func() { web.Finalizers = nil })
	w.IsGone(web)
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestForgedMarksKeepNoPolicy lets a tenant write bindings that say they are of a policy
// for all namespaces: under any name, of a kind that nobody serves, of an object that does
// not exist and with a finalizer, and of his own object. The policy can be deleted.
func TestForgedMarksKeepNoPolicy(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: harness.Policy("web", policyv1alpha1.Placement{}).Spec}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "own"}}
	w.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, own, wide, harness.Deployment("web", 1))
	w.RunsOn("web", map[string]int32{"member1": 1})
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(wide), wide); err != nil {
		t.Fatal(err)
	}
	kept := map[string]*workv1alpha2.ResourceBinding{}
	for name, of := range map[string]workv1alpha2.ObjectReference{
		"any-name":        {APIVersion: "v1", Kind: "ConfigMap", Name: "own", UID: own.UID},
		"gadget-gadget":   {APIVersion: "example.io/v1", Kind: "Gadget", Name: "gadget", UID: "forged"},
		"ghost-configmap": {APIVersion: "v1", Kind: "ConfigMap", Name: "ghost", UID: "forged"},
		"own-configmap":   {APIVersion: "v1", Kind: "ConfigMap", Name: "own", UID: own.UID},
	} {
		b := bound(own)
		b.Name, b.Spec.Resource, b.Finalizers = name, of, []string{"example.io/kept"}
		b.Spec.Resource.Namespace = tenant
		b.Labels[policyv1alpha1.LabelClusterPropagationPolicyID] = wide.Labels[policyv1alpha1.LabelClusterPropagationPolicyID]
		b.Annotations = map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: wide.Name}
		kept[name] = b
		w.CreateAll(b)
	}
	w.AwaitPasses(func() {})
	if err := w.Delete(t.Context(), wide); err != nil {
		t.Fatal(err)
	}
	w.IsGone(wide)
	for _, b := range kept {
		w.ChangeObject(b, func() { b.Finalizers = nil })
	}
}

// TestABindingGetsNoHoldOfOthersWorks lets who may write the bindings of a namespace make
// one with the permanent ID of another namespace's, and delete it; also in a namespace that
// was named so that its works have the names of those of the other one.
func TestABindingGetsNoHoldOfOthersWorks(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	web, webs := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	const alike = "tenant-fuvupvl"
	if a, b := deliver.WorkName("Deployment", alike, "web"), deliver.WorkName("Deployment", metav1.NamespaceDefault, "web"); a != b {
		t.Fatalf("the works of the namespaces are called %q and %q, which is no attack", a, b)
	}
	w.CreateAll(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: alike}}, webs, web,
	)
	w.RunsOn("web", map[string]int32{"member1": 1})
	theirs := &workv1alpha2.ResourceBinding{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, theirs); err != nil {
		t.Fatal(err)
	}
	before := w.WorkOf("member1", "web")
	for _, by := range []struct{ namespace, of string }{{tenant, metav1.NamespaceDefault}, {tenant, tenant}, {alike, alike}} {
		forged := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
			Namespace: by.namespace, Name: "web-deployment", Labels: theirs.Labels, Finalizers: theirs.Finalizers,
		}, Spec: theirs.Spec}
		forged.Spec.Resource.Namespace = by.of
		w.CreateAll(forged)
		w.Remove(forged)
	}
	if after := w.WorkOf("member1", "web"); after.UID != before.UID || after.Generation != before.Generation || !after.DeletionTimestamp.IsZero() {
		t.Errorf("the work of the other namespace was changed: generation %d, then %d, deleted %v", before.Generation, after.Generation, after.DeletionTimestamp)
	}
}

// TestAliasesOfYAMLDoNotExhaustTheHub lets a tenant override a field within a YAML text
// that is short, and has gigabytes with its aliases written out. It concerns him alone.
func TestAliasesOfYAMLDoNotExhaustTheHub(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	bomb := harness.Policy("bomb", policyv1alpha1.Placement{})
	bomb.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "bomb"}}
	w.CreateAll(
		bomb,
		&policyv1alpha1.OverridePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "bomb"},
			Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: bomb.Spec.ResourceSelectors, OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/text", YAML: []policyv1alpha1.JSONPatchOperation{
					{SubPath: "/b", Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte("1")}},
				}}},
			}}}},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "bomb"},
			Data:       map[string]string{"text": "a: &a " + strings.Repeat("x", 400_000) + "\nc: [" + strings.Repeat("*a,", 100_000) + "]\n"},
		},
	)
	w.BindingSays("bomb-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"OverridePolicy default/bomb: spec.overrideRules[0].overriders.fieldOverrider[0]: at path /data/text: with its aliases written out the YAML has more than")
	w.CreateAll(harness.Deployment("other", 1), harness.Policy("other", only("member1")))
	w.RunsOn("other", map[string]int32{"member1": 1})
}

// TestNobodyNestsAWorkWithoutEnd lets a tenant override an object with values that are nested as deep as API servers store it
// alone: nobody could read a list of works with it, no controller either. It concerns him alone.
func TestNobodyNestsAWorkWithoutEnd(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	deep := harness.Policy("deep", policyv1alpha1.Placement{})
	deep.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "deep"}}
	add := func(path, value string) policyv1alpha1.PlaintextOverrider {
		return policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte(value)}}
	}
	w.CreateAll(
		deep,
		&policyv1alpha1.OverridePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "deep"},
			Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: deep.Spec.ResourceSelectors, OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				Plaintext: []policyv1alpha1.PlaintextOverrider{
					add("/data/x", `{"a":{"b":{"c":{}}}}`), add("/data/x/a/b/c/d", strings.Repeat("[", 9_990)+strings.Repeat("]", 9_990)),
				},
			}}}},
		},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "deep"}, Data: map[string]string{"key": "value"}},
	)
	w.BindingSays("deep-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"it is nested more than 1000 levels deep")
	w.CreateAll(harness.Deployment("other", 1), harness.Policy("other", only("member1")))
	w.RunsOn("other", map[string]int32{"member1": 1})
}

func only(cluster string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
}

// greedy is a policy of the tenant for what is not his, and for all his own.
func greedy() []client.Object {
	all := harness.Policy("greedy", only("member2"))
	all.Namespace, all.Spec.PropagateDeps = tenant, true
	all.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: victim, Name: "web"},
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: victim},
		{APIVersion: "v1", Kind: "Secret", Namespace: victim, Name: "keys"},
		{APIVersion: "v1", Kind: "Namespace", Name: victim},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "powers"},
		{APIVersion: "apps/v1", Kind: "Deployment"},
	}
	return []client.Object{all}
}

// forged is a Deployment of the tenant with the name and the marks of the other's,
// which needs the other's Secret.
func forged(policy *policyv1alpha1.PropagationPolicy) *appsv1.Deployment {
	d := harness.Deployment("forged", 1)
	d.Namespace = tenant
	d.Labels = map[string]string{policyv1alpha1.LabelPropagationPolicyID: policy.Labels[policyv1alpha1.LabelPropagationPolicyID]}
	d.Annotations = map[string]string{
		policyv1alpha1.AnnotationPropagationPolicyNamespace: victim, policyv1alpha1.AnnotationPropagationPolicyName: policy.Name,
	}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}}}
	return d
}

// bound is a binding of the tenant that is about an object of the other namespace.
func bound(object client.Object) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: "keys-secret", Labels: map[string]string{workv1alpha2.LabelResourceBindingID: "forged"},
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member2"}}
	return b
}

// everything is an override of the tenant for all that there is.
func everything() *policyv1alpha1.OverridePolicy {
	return &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "everything"},
		Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
			LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"owner": tenant}}},
		}}}},
	}
}

// elsewhere is one that would make another object of his own.
func elsewhere() *policyv1alpha1.OverridePolicy {
	change := func(path, value string) policyv1alpha1.PlaintextOverrider {
		return policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpReplace, Value: policyv1alpha1.JSON{Raw: []byte(value)}}
	}
	return &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "elsewhere"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "forged"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
				change("/metadata/namespace", `"kube-system"`),
			}}}},
		},
	}
}
