// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
)

// The manifests of these tests are some that server-side apply alone brings to the member as something else.
// Then they are changed.

// secretWith returns the JSON of a Secret in the member's namespace with the fields.
func (s *scene) secretWith(name, fields string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":%q},%s}`, name, s.ns(), fields)
}

// secretHas waits until the Secret has the data, and nothing else.
func (s *scene) secretHas(name string, want map[string]string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	s.eventually("the data of secret "+name, func() error {
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, secret); err != nil {
			return err
		}
		got := make(map[string]string, len(secret.Data))
		for key, value := range secret.Data {
			got[key] = string(value)
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it is %v, want %v; %+v", got, want, secret.ManagedFields)
		}
		secret = secret.DeepCopy()
		return nil
	})
	return secret
}

func TestAnIgnoredKeyOfStringDataIsTheClusters(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.secretWith("s", `"stringData":{"user":"u","password":"made"}`))
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "secrets", Namespace: "*", Name: "s"},
		UpdateStrategy: &workv1.UpdateStrategy{
			Type: workv1.UpdateStrategyTypeServerSideApply,
			ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, IgnoreFields: []workv1.IgnoreField{
				{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/stringData/password"}},
			}},
		},
	}}
	s.create(work)
	secret := s.secretHas("s", map[string]string{"user": "u", "password": "made"})
	s.condition("w", "Applied", metav1.ConditionTrue)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"password":"rotated"}}`))
	if err := s.client.Patch(t.Context(), secret, patch); err != nil {
		t.Fatal(err)
	}
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, s.secretWith("s", `"stringData":{"user":"v","password":"made"}`))
	})
	secret = s.secretHas("s", map[string]string{"user": "v", "password": "rotated"})
	if !slices.ContainsFunc(secret.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == workv1.DefaultFieldManager }) {
		t.Errorf("the work does not manage the secret: %+v", secret.ManagedFields)
	}
}

// member returns an object of the member.
func member[T client.Object](s *scene, object T, name string) T {
	s.t.Helper()
	object.SetName(name)
	object.SetNamespace(s.ns())
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.t.Fatal(err)
	}
	return object
}

// replace makes a work have one manifest, and waits until that is applied.
func (s *scene) replace(work, manifest string) {
	s.t.Helper()
	s.change(work, func(w *workv1.ManifestWork) { setManifests(w, manifest) })
	s.condition(work, "Applied", metav1.ConditionTrue)
}

// passes waits until the agent has applied another work, and that work again: what it had
// to do before is done.
func (s *scene) passes(name string) {
	s.t.Helper()
	s.create(s.work(name, s.configMap(name, "1")))
	s.condition(name, "Applied", metav1.ConditionTrue)
	s.drift(name, "2")
	s.has(name, "1")
	s.delete(name)
	s.gone(name)
}

// applyAs does what a controller of the member does by server-side apply.
func (s *scene) applyAs(manager string, object client.Object) {
	s.t.Helper()
	if err := s.client.Patch(s.t.Context(), object, client.Apply, client.FieldOwner(manager), client.ForceOwnership); err != nil { //nolint:staticcheck // of an object that is not typed
		s.t.Fatal(err)
	}
}

// makers make a work as a user and as a binding does.
func makers() map[string]func(*workv1.ManifestWork) *workv1.ManifestWork {
	return map[string]func(*workv1.ManifestWork) *workv1.ManifestWork{
		"of a user":    func(work *workv1.ManifestWork) *workv1.ManifestWork { return work },
		"of a binding": ofBinding,
	}
}

func TestRulesOfARoleAreThoseOfTheCluster(t *testing.T) {
	t.Parallel()
	for whose, made := range makers() {
		t.Run(whose, func(t *testing.T) {
			s := takeScene(t)
			s.start(agentOptions{})
			name := s.cluster
			role := func(fields string) string {
				return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},%s}`, name, fields)
			}
			const selects = `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"to":"m"}}]}`
			live := func() *rbacv1.ClusterRole {
				t.Helper()
				found := &rbacv1.ClusterRole{}
				if err := s.client.Get(t.Context(), client.ObjectKey{Name: name}, found); err != nil {
					t.Fatal(err)
				}
				return found
			}
			reads := func(resource string) {
				t.Helper()
				if rules := live().Rules; len(rules) != 1 || !slices.Equal(rules[0].Resources, []string{resource}) {
					t.Fatalf("the rules are %v, want those for %s", rules, resource)
				}
			}
			aggregate := func(resource string) {
				aggregated := unstructuredOf(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "", name)
				aggregated.Object["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{"get"}}}
				s.applyAs("clusterrole-aggregation-controller", aggregated)
			}
			s.create(made(s.work("w", role(`"rules":[],`+selects))))
			s.condition("w", "Applied", metav1.ConditionTrue)
			aggregate("pods")
			before := live().ResourceVersion
			s.passes("x")
			reads("pods")
			if now := live().ResourceVersion; now != before {
				t.Errorf("the role was written: %s is %s", before, now)
			}
			s.replace("w", role(`"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}],`+selects))
			s.passes("y")
			reads("pods")
			aggregate("nodes")
			s.passes("z")
			reads("nodes")
			s.replace("w", role(`"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]`))
			reads("configmaps")
			// The rules are never away on the way back: whoever has the role keeps what it grants.
			s.replace("w", role(selects))
			reads("configmaps")
			s.delete("w")
			s.gone("w")
		})
	}
}

func TestPullSecretsOfAnAccountAreOfBoth(t *testing.T) {
	t.Parallel()
	for whose, made := range makers() {
		t.Run(whose, func(t *testing.T) {
			s := takeScene(t)
			s.start(agentOptions{})
			account := func(fields string) string {
				return fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a","namespace":%q}%s}`, s.ns(), fields)
			}
			has := func(pull, secrets string) *corev1.ServiceAccount {
				t.Helper()
				found := member(s, &corev1.ServiceAccount{}, "a")
				var pulls, others []string
				for _, reference := range found.ImagePullSecrets {
					pulls = append(pulls, reference.Name)
				}
				for i := range found.Secrets {
					others = append(others, found.Secrets[i].Name)
				}
				if got := strings.Join(pulls, " "); got != pull || strings.Join(others, " ") != secrets {
					t.Fatalf("imagePullSecrets are %q, want %q; secrets are %q, want %q", got, pull, others, secrets)
				}
				return found
			}
			s.create(made(s.work("w", account(`,"imagePullSecrets":[{"name":"a"}],"secrets":[{"name":"s"}]`))))
			s.condition("w", "Applied", metav1.ConditionTrue)
			found := has("a", "s")
			found.ImagePullSecrets = append(found.ImagePullSecrets, corev1.LocalObjectReference{Name: "dockercfg"})
			found.Secrets = append(found.Secrets, corev1.ObjectReference{Name: "token"})
			if err := s.client.Update(t.Context(), found); err != nil {
				t.Fatal(err)
			}
			s.passes("x")
			before := has("a dockercfg", "s token").ResourceVersion
			s.passes("y")
			if now := has("a dockercfg", "s token").ResourceVersion; now != before {
				t.Errorf("the account was written: %s is %s", before, now)
			}
			s.replace("w", account(`,"imagePullSecrets":[{"name":"b"}]`))
			found = has("dockercfg b", "token")
			found.ImagePullSecrets = found.ImagePullSecrets[:1]
			if err := s.client.Update(t.Context(), found); err != nil {
				t.Fatal(err)
			}
			s.passes("z")
			has("dockercfg b", "token")
			s.replace("w", account(``))
			has("dockercfg", "token")
			s.relabel("a") // once more, with nothing in the manifest
			s.passes("again")
			has("dockercfg", "token")
			s.replace("w", account(`,"imagePullSecrets":[{"name":"c"}]`))
			has("dockercfg c", "token")
			// The first attempt is refused for a field.
			s.replace("w", account(`,"imagePullSecrets":[{"name":"d"}],"nope":1`))
			if noted := has("dockercfg d", "token").Annotations[workv1.AnnotationImagePullSecrets]; noted != "d" {
				t.Errorf("the account says that its manifest has %q", noted)
			}
		})
	}
}

func TestAnAccountIsOfWorksWithAndWithoutPullSecrets(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	account := func(fields string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a","namespace":%q}%s}`, s.ns(), fields)
	}
	s.create(s.work("with", account(`,"imagePullSecrets":[{"name":"a"}]`)))
	s.condition("with", "Applied", metav1.ConditionTrue)
	found := member(s, &corev1.ServiceAccount{}, "a")
	found.ImagePullSecrets = append(found.ImagePullSecrets, corev1.LocalObjectReference{Name: "dockercfg"})
	if err := s.client.Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	s.create(s.work("without", account(``)))
	s.condition("without", "Applied", metav1.ConditionTrue)
	s.condition("with", "Applied", metav1.ConditionTrue)
	found = member(s, &corev1.ServiceAccount{}, "a")
	if len(found.ImagePullSecrets) != 2 || found.Annotations[workv1.AnnotationImagePullSecrets] != "a" {
		t.Errorf("the account has %v, of which %q are the manifest's", found.ImagePullSecrets, found.Annotations[workv1.AnnotationImagePullSecrets])
	}
}

// TestASpecThatIsOneValueIsApplied: the manifest may not have replicas, but they are not to be had from the rest.
func TestASpecThatIsOneValueIsApplied(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("definition", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"wholes.example.net"},"spec":{
"group":"example.net","scope":"Namespaced","names":{"plural":"wholes","singular":"whole","kind":"Whole","listKind":"WholeList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"size":{"type":"integer"},"replicas":{"type":"integer"}}},
"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}`))
	s.condition("definition", "Applied", metav1.ConditionTrue)
	whole := func(spec string) string {
		return fmt.Sprintf(`{"apiVersion":"example.net/v1","kind":"Whole","metadata":{"name":"o","namespace":%q},"spec":{%s}}`, s.ns(), spec)
	}
	s.create(s.work("w", whole(`"size":1`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.replace("w", whole(`"size":2`))
	s.replace("w", whole(``))
	s.replace("w", whole(`"size":3`))
	found := member(s, unstructuredOf(schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Whole"}, s.ns(), "o"), "o")
	if size, _, _ := unstructured.NestedInt64(found.Object, "spec", "size"); size != 3 {
		t.Errorf("it is %v", found.Object["spec"])
	}
	s.delete("w")
	s.gone("w")
	s.delete("definition")
	s.gone("definition")
}

func TestWhoMayNotGetObjectsBringsThem(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	writes := []string{"list", "watch", "create", "patch", "delete"}
	var options agentOptions
	options.spoke, _ = s.user(records, configMaps(writes...),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: writes},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: writes})
	s.start(options)
	manifests := func(image string) []string {
		return []string{
			fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a","namespace":%q},"imagePullSecrets":[{"name":%q}]}`, s.ns(), image),
			fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},
"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":%q}]}}}}`, s.ns(), image),
		}
	}
	s.create(s.work("w", manifests("i1")...))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, manifests("i2")...) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.runs("d", "i2", 1)
	if pulls := member(s, &corev1.ServiceAccount{}, "a").ImagePullSecrets; len(pulls) != 1 || pulls[0].Name != "i2" {
		t.Errorf("imagePullSecrets are %v", pulls)
	}
}

// relabel gives a ServiceAccount of the member another label.
func (s *scene) relabel(name string) {
	s.t.Helper()
	account := member(s, &corev1.ServiceAccount{}, name)
	if err := s.client.Patch(s.t.Context(), account, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"by":"hand"}}}`))); err != nil {
		s.t.Fatal(err)
	}
}

func TestReplicasStayWhenAManifestLosesThem(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	workload := func(kind, replicas, image string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":"d","namespace":%q},"spec":{%s
"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":%q}]}}}}`, kind, s.ns(), replicas, image)
	}
	kinds := []string{"Deployment", "StatefulSet", "ReplicaSet"}
	all := func(replicas, image string) {
		t.Helper()
		var manifests []string
		for _, kind := range kinds {
			manifests = append(manifests, workload(kind, replicas, image))
		}
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, manifests...) })
		s.condition("w", "Applied", metav1.ConditionTrue)
	}
	has := func(replicas int64, image string) {
		t.Helper()
		for _, kind := range kinds {
			found := member(s, unstructuredOf(appsv1.SchemeGroupVersion.WithKind(kind), s.ns(), "d"), "d")
			count, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas")
			containers, _, _ := unstructured.NestedSlice(found.Object, "spec", "template", "spec", "containers")
			if got := containers[0].(map[string]any)["image"]; count != replicas || got != image {
				t.Fatalf("the %s has %d replicas of %s, want %d of %s; %+v", kind, count, got, replicas, image, found.GetManagedFields())
			}
		}
	}
	s.create(s.work("w", s.configMap("c", "1")))
	all(`"replicas":4,`, "i:1")
	has(4, "i:1")
	all(``, "i:1")
	has(4, "i:1")
	all(``, "i:2")
	has(4, "i:2")
	s.scale(7)
	kinds = kinds[:1]
	all(``, "i:3")
	has(7, "i:3")
	all(`"replicas":2,`, "i:3")
	has(2, "i:3")
	first.stop()
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, workload("Deployment", "", "i:4")) })
	s.start(agentOptions{})
	s.condition("w", "Applied", metav1.ConditionTrue)
	has(2, "i:4")
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(ignoring(w), workload("Deployment", `"replicas":3,`, "i:4"))
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
	has(3, "i:4")
	all(``, "i:5")
	has(3, "i:5")
}

// expiring is a Job that goes some time after it has finished.
func (s *scene) expiring(name, image string) string {
	job := strings.Replace(s.job(name), `"spec":{`, `"spec":{"ttlSecondsAfterFinished":5,`, 1)
	return strings.Replace(job, `"image":"i"`, fmt.Sprintf(`"image":%q`, image), 1)
}

// expire finishes a Job and deletes it once the work knows, as the cluster does.
func (s *scene) expire(work, name string, ordinal int) {
	s.t.Helper()
	s.eventually("the job is there", func() error { _, err := s.live(jobKind, name); return err })
	s.status(jobKind, name, jobRuns)
	s.status(jobKind, name, jobDone)
	s.eventually("the agent has seen that the job of this generation is done", func() error {
		w, err := s.get(work)
		if err != nil {
			return err
		}
		for _, m := range w.Status.ResourceStatus.Manifests {
			if int(m.ResourceMeta.Ordinal) == ordinal && plan.IsConditionComplete(m.Conditions, w.Generation) {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", w.Status)
	})
	job, err := s.live(jobKind, name)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Delete(s.t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		s.t.Fatal(err)
	}
	s.says(work, ordinal, "Available", "False ResourceNotAvailable")
}

// isGone fails if a Job is there.
func (s *scene) isGone(name string) {
	s.t.Helper()
	if _, err := s.live(jobKind, name); client.IgnoreNotFound(err) != nil || err == nil {
		s.t.Errorf("job %s is there again (%v)", name, err)
	}
}

func TestAJobThatHasExpiredDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(seldom())
	s.create(s.work("w", s.expiring("j", "i:1")))
	s.expire("w", "j", 0)
	s.condition("w", "Complete", metav1.ConditionTrue)
	s.passes("x")
	s.isGone("j")
	first.stop()
	s.start(seldom())
	s.passes("y")
	s.isGone("j")
	s.condition("w", "Complete", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.expiring("j", "i:2")) })
	s.expire("w", "j", 0)
	s.condition("w", "Complete", metav1.ConditionTrue)
	s.passes("z")
	s.isGone("j")
}

func TestAJobIsDoneAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(s.work("w", s.configMap("c", "1"), s.expiring("j", "i:1")))
	s.expire("w", "j", 1)
	s.drift("c", "2")
	s.has("c", "1")
	s.passes("x")
	s.isGone("j")
	work, err := s.get("w")
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(work.Status.Conditions, func(c metav1.Condition) bool { return c.Type == workv1.ManifestWorkConditionComplete }) {
		t.Errorf("the work has a condition Complete: %v", work.Status.Conditions)
	}
	// A rule for another object does not replace what is known of the Job.
	s.change("w", func(w *workv1.ManifestWork) {
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "batch", Resource: "jobs", Namespace: "*", Name: "*"},
			ConditionRules:     []workv1.ConditionRule{celRule("Odd", "true")},
		}}
		setManifests(w, s.configMap("c", "3"), s.expiring("j", "i:2"))
	})
	s.expire("w", "j", 1)
	s.has("c", "3")
	s.condition("w", "Odd", metav1.ConditionTrue)
	s.drift("c", "4")
	s.has("c", "3")
	s.isGone("j")
}

func TestUnknownFieldsAreLeftOut(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	deployment := func(image, annotations string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q,"annotations":{%s},"owner":"me"},
"spec":{"nope":1,"nor":{"a":[1]},"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","x.y/z":"1"}},"spec":{
"containers":[{"name":"ab","image":%q,"imagine":"x","ports":[{"containerPort":80,"port":80}],"args":["-a"]},{"name":"c","image":%q}],"shareNothing":true}}}}`,
			s.ns(), annotations, image, image)
	}
	strict := `"` + workv1.AnnotationStrictFields + `":"true"`
	s.create(s.work("w", deployment("i:1", "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.says("w", 0, "Applied", "True AppliedManifestComplete", "Warning", ".spec.nope", ".spec.nor",
		".spec.template.spec.containers[0].imagine", ".spec.template.spec.containers[0].ports[0].port", ".spec.template.spec.shareNothing", workv1.AnnotationStrictFields)
	s.runs("d", "i:1", 2)
	// The message stays while there is nothing to be done.
	s.passes("x")
	s.says("w", 0, "Applied", "Warning", ".spec.nope")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, deployment("i:2", "")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.runs("d", "i:2", 2)
	s.autoscale("d", 5)
	s.runs("d", "i:2", 2)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, deployment("i:3", strict))
	})
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "False AppliedManifestFailed", "field not declared in schema")
	s.runs("d", "i:2", 2)
	s.replace("w", strings.ReplaceAll(s.imaged("d", "i:4"), `"replicas":3`, `"replicas":2`))
	s.runs("d", "i:4", 2)
	s.says("w", 0, "Applied", "True AppliedManifestComplete: The object matches the manifest.")
	// Strategies that apply nothing leave nothing out.
	s.replace("w", deployment("i:5", ""))
	s.says("w", 0, "Applied", "Warning", ".spec.nope")
	for _, strategy := range []workv1.UpdateStrategyType{workv1.UpdateStrategyTypeCreateOnly, workv1.UpdateStrategyTypeReadOnly} {
		s.change("w", func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: s.ns(), Name: "d"},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: strategy},
			}}
		})
		s.says("w", 0, "Applied", string(strategy))
	}
}

func TestManyUnknownFieldsAreLeftOutAtOnce(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	const fields = 20
	var sent atomic.Int32
	s.start(agentOptions{wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/d") {
				sent.Add(1)
			}
			return next.RoundTrip(r)
		})
	}})
	unknown := `"spec":{`
	for i := range fields {
		unknown += fmt.Sprintf(`"nope%d":1,`, i)
	}
	s.create(s.work("w", strings.Replace(s.deployment(2, "i:1"), `"spec":{`, unknown, 1)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.says("w", 0, "Applied", "Warning", ".spec.nope", "and 10 more")
	// The next pass begins without them, unless it is time to try them again.
	s.within(5*time.Minute, "a correction does not look for the fields", func() error {
		before := sent.Load()
		s.autoscale("d", 5)
		s.runs("d", "i:1", 2)
		if after := sent.Load(); after-before >= fields {
			return fmt.Errorf("it was sent %d times", after-before)
		}
		return nil
	})
}

func TestUnknownFieldsComeWithTheirSchema(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	const gadgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"novelties.example.net"},"spec":{
"group":"example.net","scope":"Namespaced","names":{"plural":"novelties","singular":"novelty","kind":"Novelty","listKind":"NoveltyList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"size":{"type":"integer"}%s}}}}}}]}}`
	s.create(s.work("definition", fmt.Sprintf(gadgets, "")))
	s.condition("definition", "Applied", metav1.ConditionTrue)
	s.create(s.work("w", fmt.Sprintf(`{"apiVersion":"example.net/v1","kind":"Novelty","metadata":{"name":"g","namespace":%q},"spec":{"size":3,"color":"red"}}`, s.ns())))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.says("w", 0, "Applied", "Warning", ".spec.color")
	color := func(want string) func() error {
		return func() error {
			found := unstructuredOf(schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Novelty"}, s.ns(), "g")
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
				return err
			}
			size, _, _ := unstructured.NestedInt64(found.Object, "spec", "size")
			if got, _, _ := unstructured.NestedString(found.Object, "spec", "color"); got != want || size != 3 {
				return fmt.Errorf("it is %v", found.Object["spec"])
			}
			return nil
		}
	}
	if err := color("")(); err != nil {
		t.Fatal(err)
	}
	s.replace("definition", fmt.Sprintf(gadgets, `,"color":{"type":"string"}`))
	s.within(5*time.Minute, "the field comes with its schema", color("red"))
	s.says("w", 0, "Applied", "The object matches the manifest.")
	s.delete("w")
	s.gone("w")
	s.delete("definition")
	s.gone("definition")
}

// typed waits until the Secret has the type, and returns it.
func (s *scene) typed(name string, want corev1.SecretType) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	s.eventually("secret "+name+" has type "+string(want), func() error {
		err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, secret)
		if err == nil && secret.Type != want {
			err = fmt.Errorf("it has %s", secret.Type)
		}
		return err
	})
	if secret.Labels[workv1.LabelManaged] != "true" || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Kind != workv1.KindAppliedManifestWork {
		s.t.Errorf("the secret is not the work's: %v %v", secret.Labels, secret.OwnerReferences)
	}
	return secret
}

const tlsFields = `"type":"kubernetes.io/tls","data":{"tls.crt":"MQ==","tls.key":"MQ=="}`

func TestASecretOfAnotherTypeIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.secretWith("s", `"type":"Opaque","stringData":{"key":"1"}`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := s.typed("s", corev1.SecretTypeOpaque)
	s.replace("w", s.secretWith("s", tlsFields))
	after := s.typed("s", corev1.SecretTypeTLS)
	if after.UID == before.UID || len(after.Data) != 2 {
		t.Errorf("the secret is %s with %v, and was %s", after.UID, after.Data, before.UID)
	}
	s.says("w", 0, "Applied", "The object matches the manifest.")
	s.passes("x")
	if again := s.typed("s", corev1.SecretTypeTLS); again.ResourceVersion != after.ResourceVersion {
		t.Errorf("the secret was written again: %+v", again)
	}
	s.replace("w", s.secretWith("s", `"type":"Opaque","stringData":{"key":"2"}`))
	s.typed("s", corev1.SecretTypeOpaque)
	s.secretHas("s", map[string]string{"key": "2"})

	// Not what two works have.
	s.create(s.work("other", s.secretWith("s", `"type":"Opaque"`)))
	s.condition("other", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.secretWith("s", tlsFields)) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.secretHas("s", map[string]string{"key": "2"})
	s.condition("other", "Applied", metav1.ConditionTrue)
}

func TestWhatOthersMadeIsMadeAgainOnDemand(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "s"}, Data: map[string][]byte{"mine": []byte("1")}}
	s.create(opaque)
	s.create(s.work("w", s.secretWith("s", `"stringData":{"key":"1"}`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.secretWith("s", tlsFields)) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "False AppliedManifestFailed", "field is immutable", "Restore type in the manifest", workv1.AnnotationRecreate+"=true")
	s.passes("x")
	if found := member(s, &corev1.Secret{}, "s"); found.UID != opaque.UID {
		t.Error("an adopted secret was deleted")
	}
	recreate := fmt.Sprintf(`"annotations":{%q:"true"}`, workv1.AnnotationRecreate)
	s.replace("w", strings.Replace(s.secretWith("s", tlsFields), `"metadata":{`, `"metadata":{`+recreate+`,`, 1))
	if found := s.typed("s", corev1.SecretTypeTLS); found.UID == opaque.UID || len(found.Data) != 2 {
		t.Errorf("the secret is %s with %v", found.UID, found.Data)
	}

	// Any kind is made again where its manifest says so, and none without that.
	s.create(s.work("d", s.triple("d")))
	s.condition("d", "Applied", metav1.ConditionTrue)
	before := member(s, &appsv1.Deployment{}, "d")
	selecting := strings.ReplaceAll(s.triple("d"), `{"a":"b"}`, `{"a":"c"}`)
	s.change("d", func(w *workv1.ManifestWork) { setManifests(w, selecting) })
	s.condition("d", "Applied", metav1.ConditionFalse)
	s.says("d", 0, "Applied", "Restore spec.selector in the manifest", workv1.AnnotationRecreate+"=true")
	if found := member(s, &appsv1.Deployment{}, "d"); found.UID != before.UID {
		t.Error("the deployment was deleted")
	}
	s.replace("d", strings.Replace(selecting, `"metadata":{`, `"metadata":{`+recreate+`,`, 1))
	if found := member(s, &appsv1.Deployment{}, "d"); found.UID == before.UID || found.Spec.Selector.MatchLabels["a"] != "c" {
		t.Errorf("the deployment is %+v", found.Spec.Selector)
	}
}

func TestAPathToNothingIsNamed(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.configMap("c", "1")), "ConfigMap", workv1.ManifestConfigOption{
		FeedbackRules: paths("key", ".data.key", "typo", ".data.kye", "none", ".status.phase"),
	}))
	s.reports("w", 0, `key={"string":"1"}`)
	s.tells("w", 0, "StatusFeedbackSynced", `The object has nothing at: .data.kye (value "typo"); .status.phase (value "none").`)
	s.condition("w", "StatusFeedbackSynced", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		w.Spec.ManifestConfigs[0].FeedbackRules = paths("key", ".data.key")
	})
	s.tells("w", 0, "StatusFeedbackSynced", "True StatusFeedbackSynced: The fields were read.")
}
