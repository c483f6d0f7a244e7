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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// The namespace of somebody who may write whatever he likes there, and that of
// another one.
const tenant, victim = "tenant", "victim"

// TestATenantStaysInItsNamespace lets the user of a namespace try to send what is
// in another namespace or in none, or to change what others send: by policies,
// overrides, dependencies, names and marks. No webhook helps the controllers here.
func TestATenantStaysInItsNamespace(t *testing.T) {
	w := newWorld(t, 2)
	web, webs := deployment("web", 1), policy("web", only("member1"))
	web.Namespace, webs.Namespace = victim, victim
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: victim, Name: "keys"}}
	w.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}},
		keys,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "powers"}}, webs, web)
	w.applied(victim, "web")
	before := w.work("member1", "web")

	w.create(greedy()...)
	w.create(forged(webs), elsewhere(), everything(), bound(keys))
	last := deployment("last", 1)
	last.Namespace = tenant
	w.create(last)
	w.applied(tenant, "forged")
	w.applied(tenant, "last")

	w.onlyOf(tenant, "member2")
	w.bindings(victim, "web-deployment")
	w.bindings("")
	if after := w.work("member1", "web"); after.UID != before.UID || after.Generation != before.Generation {
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
	w := newWorld(t, 1)
	mine, keys := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "keys"}}
	w.create(mine, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "asks"}}, keys,
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "asks"}})
	b := bound(keys)
	b.Name, b.Spec.Resource.Kind = "keys-configmap", "ConfigMap"
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}, {Name: victim}, {Name: metav1.NamespaceSystem}, {Name: "asks"}}
	w.create(b)
	for _, team := range []string{"", "a"} { // what is sent with the second one was looked at twice
		w.change(mine, func() { mine.Labels = map[string]string{"team": team} })
		w.namespace(tenant, map[string]string{"member1": team})
	}
	w.eventually("the binding says it of each of them", func() error {
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
		if works := w.worksOf(cluster); len(works) > 0 {
			t.Errorf("namespace %s has %d works, the first is %s", cluster, len(works), works[0].Name)
		}
	}
}

// TestAForgedBindingTakesNoRoom lets a tenant write a binding, for an object that does not
// exist, which asks for all the room of the fleet: others are placed as if it were not there.
func TestAForgedBindingTakesNoRoom(t *testing.T) {
	w := newWorld(t, 1)
	w.room("member1", "6")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, policy("web", aggregated()), deployment("first", 1))
	w.on("first", map[string]int32{"member1": 1}) // the hub knows the room
	ghost, everywhere := bound(deployment("ghost", 5)), aggregated()
	ghost.Name, ghost.Spec.Clusters, ghost.Spec.Placement = "ghost-deployment", nil, &everywhere
	ghost.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: tenant, Name: "ghost", UID: "ghost"}
	ghost.Spec.Replicas, ghost.Spec.ReplicaRequirements = 5, &workv1alpha2.ReplicaRequirements{}
	missing := (*w.running)[0].MissingSince("binding", client.ObjectKeyFromObject(ghost))
	w.create(ghost)
	w.eventually("the controller has looked at it", func() error {
		if names := missing(); len(names) > 0 {
			return fmt.Errorf("it has not reconciled %v", names)
		}
		return nil
	})
	w.create(deployment("web", 5))
	w.on("web", map[string]int32{"member1": 5})
}

// TestAMemberGetsNoHoldOfABinding lets the agent of member1 write, into the works that it
// was sent, that they are of a binding, made of a kind that the hub does not serve: into
// that of another object, and then into that of the binding itself.
func TestAMemberGetsNoHoldOfABinding(t *testing.T) {
	w := newWorld(t, 2)
	web, webs := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	other, others := deployment("other", 1), policy("other", only("member1"))
	webs.Spec.ResourceSelectors[0].Name, others.Spec.ResourceSelectors[0].Name = "web", "other"
	w.create(webs, others, web, other)
	w.on("web", map[string]int32{"member1": 1, "member2": 1})
	w.on("other", map[string]int32{"member1": 1})
	forge := func(name string) {
		t.Helper()
		work := w.work("member1", name)
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
		w.change(web, func() { web.Spec.Replicas = &wanted })
		w.on("web", map[string]int32{"member1": wanted, "member2": wanted})
	}
	w.remove(web)
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestAMemberKeepsAWork has the agent of a cluster never let go of what is deleted: the
// object goes, and what other clusters have of it, and the binding says who keeps it.
func TestAMemberKeepsAWork(t *testing.T) {
	w := newWorld(t, 1)
	w.accept("keeper") // there is no agent
	web, webs := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	w.create(webs, web)
	w.eventually("both clusters are sent it", func() error {
		if here, there := len(w.worksOf("member1")), len(w.worksOf("keeper")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and keeper %d", here, there)
		}
		return nil
	})
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.gone(web)
	w.eventually("member1 has it no more", func() error {
		if works := w.worksOf("member1"); len(works) > 0 {
			return fmt.Errorf("it has %d works", len(works))
		}
		return nil
	})
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"These clusters have not released it for more than 30s: keeper.")
	work := w.work("keeper", "web")
	w.change(&work, func() { work.Finalizers = nil })
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestAMemberTakesTheMarksOff has the agent of a cluster take off its work, again and again,
// all by which the hub knew whose it is. The others are told of as before, and it is written
// ever more seldom; when the agent stops, it is as it was.
func TestAMemberTakesTheMarksOff(t *testing.T) {
	w := newWorld(t, 1)
	w.join("thief")
	web := deployment("web", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	w.on("web", map[string]int32{"member1": 1, "thief": 1})
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
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"keeps reverting what the hub writes to ManifestWork")
	w.scale(web, 2)
	w.health(web, "member1", workv1alpha2.ResourceHealthy)
	w.eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas < 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
	stop()
	<-ended
	w.scale(web, 3) // what is new is written at once
	w.on("web", map[string]int32{"member1": 3, "thief": 3})
	w.remove(web)
	w.works(0)
}

// TestAMemberPretendsThatAWorkIsAnothers has the agent of a cluster write into its work that
// it is somebody's, made of something else. That cluster alone is told of, also if a label
// says that the hub has made the work just now.
func TestAMemberPretendsThatAWorkIsAnothers(t *testing.T) {
	w := newWorld(t, 1)
	w.accept("liar") // there is no agent
	web := deployment("web", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	w.eventually("both clusters are sent it", func() error {
		if here, there := len(w.worksOf("member1")), len(w.worksOf("liar")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and liar %d", here, there)
		}
		return nil
	})
	work := w.work("liar", "web")
	w.change(&work, func() {
		work.Annotations = nil
		delete(work.Labels, workv1alpha2.LabelResourceBindingID)
		work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web"}}`)
	})
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		`cluster "liar" has another ManifestWork`)
	w.scale(web, 2)
	w.eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas != 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
}

// TestAnObjectAnewReachesTheOthers deletes an object of which a cluster never lets go, and
// makes it anew: the others get it, and the binding says who does not.
func TestAnObjectAnewReachesTheOthers(t *testing.T) {
	w := newWorld(t, 1)
	w.accept("keeper") // there is no agent
	web := deployment("web", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	w.eventually("both clusters are sent it", func() error {
		if here, there := len(w.worksOf("member1")), len(w.worksOf("keeper")); here != 1 || there != 1 {
			return fmt.Errorf("member1 has %d works, and keeper %d", here, there)
		}
		return nil
	})
	w.remove(web)
	w.eventually("the work of keeper is deleted", func() error {
		if work := w.work("keeper", "web"); work.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is %+v", work.ObjectMeta)
		}
		return nil
	})
	kept := w.work("keeper", "web")
	web = deployment("web", 2)
	w.create(web)
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		`cluster "keeper" has not released the ManifestWork`)
	w.eventually("the object says what member1 has of it", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Status.ReadyReplicas != 2 {
			return fmt.Errorf("its status is %+v: %w", web.Status, err)
		}
		return nil
	})
	w.change(&kept, func() { kept.Finalizers = nil })
	w.eventually("keeper is sent the new object", func() error {
		works := w.worksOf("keeper")
		if len(works) != 1 || works[0].UID == kept.UID || w.object(&works[0]).GetAnnotations()[workv1alpha2.AnnotationTemplateUID] != string(web.UID) {
			return fmt.Errorf("it has %d works", len(works))
		}
		return nil
	})
}

// TestWhatIsNeededAnewReachesTheOthers has a cluster never let go of a ConfigMap that goes
// along with a Deployment, until that needs it no more. Then it is needed again.
func TestWhatIsNeededAnewReachesTheOthers(t *testing.T) {
	w := newWorld(t, 1)
	w.accept("keeper") // there is no agent
	web, webs := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	webs.Spec.PropagateDeps = true
	needs := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}}}}
	web.Spec.Template.Spec.Containers[0].EnvFrom = needs
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}}, webs, web)
	w.sentAre("ConfigMap", "member1/page", "keeper/page")
	w.change(web, func() { web.Spec.Template.Spec.Containers[0].EnvFrom = nil })
	w.sentAre("ConfigMap", "keeper/page")
	w.change(web, func() { web.Spec.Template.Spec.Containers[0].EnvFrom = needs })
	w.sentAre("ConfigMap", "member1/page", "keeper/page")
}

// TestWorksOfAnEarlierObjectAreDeleted starts the controllers with a work that a controller
// has left of an object that had the name of another one: it is not taken over.
func TestWorksOfAnEarlierObjectAreDeleted(t *testing.T) {
	w := newHub(t, servers.Start)
	w.join("member1")
	web := deployment("web", 1)
	w.create(web, policy("web", policyv1alpha1.Placement{}))
	left := w.lost("web", "earlier")
	left.Name = deliver.WorkName("Deployment", web.Namespace, web.Name)
	left.Finalizers = []string{workv1.FinalizerManifestWorkCleanup}
	w.create(left)
	w.start()
	w.on("web", map[string]int32{"member1": 1})
	if work := w.work("member1", "web"); work.UID == left.UID {
		t.Error("the work of the earlier object was taken over")
	}
}

// TestAnObjectDoesNotKeepItsPolicy has an object that is deleted and never goes, as whoever
// may write it has given it a finalizer. The policy that has claimed it can be deleted.
func TestAnObjectDoesNotKeepItsPolicy(t *testing.T) {
	w := newWorld(t, 1)
	web, webs := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	web.Finalizers = []string{"example.io/kept"}
	w.create(webs, web)
	w.on("web", map[string]int32{"member1": 1})
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), webs); err != nil {
		t.Fatal(err)
	}
	w.gone(webs)
	w.change(web, func() { web.Finalizers = nil })
	w.gone(web)
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
}

// TestForgedMarksKeepNoPolicy lets a tenant write bindings that say they are of a policy
// for all namespaces: under any name, of a kind that nobody serves, of an object that does
// not exist and with a finalizer, and of his own object. The policy can be deleted.
func TestForgedMarksKeepNoPolicy(t *testing.T) {
	w := newWorld(t, 1)
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: policy("web", policyv1alpha1.Placement{}).Spec}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "own"}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, own, wide, deployment("web", 1))
	w.on("web", map[string]int32{"member1": 1})
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
		w.create(b)
	}
	w.reconciled(func() {})
	if err := w.Delete(t.Context(), wide); err != nil {
		t.Fatal(err)
	}
	w.gone(wide)
	for _, b := range kept {
		w.change(b, func() { b.Finalizers = nil })
	}
}

// TestABindingGetsNoHoldOfOthersWorks lets who may write the bindings of a namespace make
// one with the permanent ID of another namespace's, and delete it; also in a namespace that
// was named so that its works have the names of those of the other one.
func TestABindingGetsNoHoldOfOthersWorks(t *testing.T) {
	w := newWorld(t, 1)
	web, webs := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	const alike = "tenant-fuvupvl"
	if a, b := deliver.WorkName("Deployment", alike, "web"), deliver.WorkName("Deployment", metav1.NamespaceDefault, "web"); a != b {
		t.Fatalf("the works of the namespaces are called %q and %q, which is no attack", a, b)
	}
	w.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: alike}}, webs, web,
	)
	w.on("web", map[string]int32{"member1": 1})
	theirs := &workv1alpha2.ResourceBinding{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, theirs); err != nil {
		t.Fatal(err)
	}
	before := w.work("member1", "web")
	for _, by := range []struct{ namespace, of string }{{tenant, metav1.NamespaceDefault}, {tenant, tenant}, {alike, alike}} {
		forged := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
			Namespace: by.namespace, Name: "web-deployment", Labels: theirs.Labels, Finalizers: theirs.Finalizers,
		}, Spec: theirs.Spec}
		forged.Spec.Resource.Namespace = by.of
		w.create(forged)
		w.remove(forged)
	}
	if after := w.work("member1", "web"); after.UID != before.UID || after.Generation != before.Generation || !after.DeletionTimestamp.IsZero() {
		t.Errorf("the work of the other namespace was changed: generation %d, then %d, deleted %v", before.Generation, after.Generation, after.DeletionTimestamp)
	}
}

// TestAliasesOfYAMLDoNotExhaustTheHub lets a tenant override a field within a YAML text
// that is short, and has gigabytes with its aliases written out. It concerns him alone.
func TestAliasesOfYAMLDoNotExhaustTheHub(t *testing.T) {
	w := newWorld(t, 3)
	bomb := policy("bomb", policyv1alpha1.Placement{})
	bomb.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "bomb"}}
	w.create(
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
	w.says("bomb-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		"OverridePolicy default/bomb: spec.overrideRules[0].overriders.fieldOverrider[0]: at path /data/text: with its aliases written out the YAML has more than")
	w.create(deployment("other", 1), policy("other", only("member1")))
	w.on("other", map[string]int32{"member1": 1})
}

func only(cluster string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
}

// greedy is a policy of the tenant for what is not his, and for all his own.
func greedy() []client.Object {
	all := policy("greedy", only("member2"))
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
	d := deployment("forged", 1)
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

// applied waits until all is said about a Deployment: that its clusters have it or
// why they do not.
func (w world) applied(namespace, name string) {
	w.Helper()
	w.eventually("all is said about "+name, func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-deployment"}, b); err != nil {
			return err
		}
		if items := b.Status.AggregatedStatus; len(items) != 1 || !items[0].Applied && !strings.Contains(items[0].AppliedMessage, "metadata.namespace would change") {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
}

// work returns the work that brings an object of the name to a cluster.
func (w world) work(cluster, name string) workv1.ManifestWork {
	w.Helper()
	for _, work := range w.worksOf(cluster) {
		if w.object(&work).GetName() == name {
			return work
		}
	}
	w.Fatalf("cluster %s has not been sent %s", cluster, name)
	return workv1.ManifestWork{}
}

func (w world) worksOf(cluster string) []workv1.ManifestWork {
	w.Helper()
	works := &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), works, client.InNamespace(cluster)); err != nil {
		w.Fatal(err)
	}
	return works.Items
}

// object returns the object that a work brings.
func (w world) object(work *workv1.ManifestWork) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		w.Fatal(err)
	}
	return object
}

// onlyOf checks that a cluster is sent a namespace, what is in it, and nothing
// else.
func (w world) onlyOf(namespace, cluster string) {
	w.Helper()
	for _, work := range w.worksOf(cluster) {
		object := w.object(&work)
		if object.GetNamespace() != namespace && (object.GetKind() != "Namespace" || object.GetName() != namespace) {
			w.Errorf("cluster %s is sent %s %s/%s", cluster, object.GetKind(), object.GetNamespace(), object.GetName())
		}
	}
}

// bindings checks that these are the bindings of a namespace.
func (w world) bindings(namespace string, want ...string) {
	w.Helper()
	var list client.ObjectList = &workv1alpha2.ResourceBindingList{}
	if namespace == "" {
		list = &workv1alpha2.ClusterResourceBindingList{}
	}
	if err := w.List(w.Context(), list, client.InNamespace(namespace)); err != nil {
		w.Fatal(err)
	}
	if got := names(w.T, list); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("the bindings of namespace %q are %v, want %v", namespace, got, want)
	}
}

func names(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, object := range objects {
		all = append(all, object.(client.Object).GetName()) //nolint:forcetypeassert // of our own lists
	}
	return all
}
