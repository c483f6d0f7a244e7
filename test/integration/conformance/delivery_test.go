// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func delivering() []testCase {
	return []testCase{
		{name: "a work of many kinds arrives whatever its order", run: manyKinds},
		{name: "the status of a work reports each object and the generation", run: statusOfObjects},
		{name: "a change of a work arrives", run: change},
		{name: "an object that leaves a work leaves the member", run: prune},
		{name: "an object that somebody changes or deletes is restored", run: drift},
		{name: "a kind whose CRD is created later is delivered then", run: laterDefinition},
		{name: "a namespace that is created later gets its objects then", run: laterNamespace},
		{name: "a kind that is not allowed says what to allow, and arrives when it is", run: notAllowed},
		{name: "an object that the member rejects says why, and arrives when it is fixed", run: notValid},
		{name: "an invalid work is rejected by the hub", run: notRight},
		{name: "a big work arrives, up to the limit", run: big},
		{name: "many works arrive", run: many},
		{name: "two works that agree share an object; it is deleted with the last", run: shared},
		{name: "two works that disagree do not fight; the second gets its turn", run: rivals},
		{name: "an executor's permissions limit a work, and more permissions help", run: executor},
		{name: "a deleted work waits for its objects and says for which", run: foreground},
		{name: "orphaned objects stay, without an owner", run: orphan},
		{name: "orphaning rules select which objects stay", run: selectivelyOrphan},
		{name: "a finished work is deleted after its TTL", run: timeToLive},
		{name: "a deleted work leaves nothing on the member", run: nothingLeft},
	}
}

// configMap is a manifest of a ConfigMap in the namespace of the case.
func configMap(name, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: NS}, data: {key: %q}}", name, value)
}

// manifestsOf is a spec with the manifests, each in one line.
func manifestsOf(manifests ...string) string {
	return "workload:\n  manifests:\n  - " + strings.Join(manifests, "\n  - ") + "\n"
}

func manyKinds(s *scene) {
	s.deliver("all", manifestsOf(
		`{apiVersion: conformance.example.com/v1, kind: Widget, metadata: {name: NS, namespace: NS}, spec: {size: 1}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: NS}, spec: {selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {serviceAccountName: a, containers: [{name: a, image: a}]}}}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS}, spec: {ports: [{port: 80}]}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a, namespace: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}, subjects: [{kind: ServiceAccount, name: a, namespace: NS}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a, namespace: NS}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS-widgets, labels: {open-cluster-management.io/aggregate-to-work: "true"}}, rules: [{apiGroups: [conformance.example.com], resources: [widgets], verbs: [get, list, watch, create, patch, delete]}]}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: NS}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: NS}, stringData: {a: b}}`,
		configMap("a", "one"),
		definition("conformance.example.com", "Widget"),
		`{apiVersion: v1, kind: Namespace, metadata: {name: NS}}`,
	))
	s.applied("all")
	s.has("a", "one")
	s.remove("all")
	s.goneFromMember(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.id}})
}

// definition is a manifest of a CustomResourceDefinition.
func definition(group, kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]ss.%[1]s}, spec: {group: %[1]s, scope: Namespaced, names: {plural: %[2]ss, singular: %[2]s, kind: %[3]s, listKind: %[3]sList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
		group, singular, kind)
}

func statusOfObjects(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one"), `{apiVersion: v1, kind: Service, metadata: {name: b, namespace: NS}, spec: {ports: [{port: 80}]}}`))
	work := s.applied("a")
	var told []string
	for _, m := range work.Status.ResourceStatus.Manifests {
		told = append(told, fmt.Sprintf("%d %s/%s %s %s %s/%s", m.ResourceMeta.Ordinal, m.ResourceMeta.Group, m.ResourceMeta.Version,
			m.ResourceMeta.Kind, m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name))
	}
	if has, want := strings.Join(told, ", "), s.fill("0 /v1 ConfigMap configmaps NS/a, 1 /v1 Service services NS/b"); has != want {
		s.Errorf("the status tells of %s, want %s", has, want)
	}
	s.message("a", 0, workv1.ManifestConditionApplied, "True AppliedManifestComplete")
	s.message("a", 1, workv1.ManifestConditionAvailable, "True ResourceAvailable")
	before := work.Generation
	s.deliver("a", manifestsOf(configMap("a", "two")))
	if work = s.applied("a"); work.Generation != before+1 || len(work.Status.ResourceStatus.Manifests) != 1 {
		s.Errorf("after the change there is generation %d with %s, want %d with one manifest", work.Generation, encode(work.Status), before+1)
	}
}

func change(s *scene) {
	s.namespace()
	for _, value := range []string{"one", "two", "three"} {
		s.deliver("a", manifestsOf(configMap("a", value)))
		s.has("a", value)
	}
	s.applied("a")
}

func prune(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.applied("a")
	s.deliver("a", manifestsOf(configMap("b", "one"), configMap("c", "one")))
	s.hasNot("a")
	s.has("c", "one")
	s.applied("a")
}

func drift(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	s.edit("a", `{"data":{"key":"changed","other":"mine"}}`)
	if found := s.has("a", "one"); found.Data["other"] != "mine" {
		s.Errorf("a field that is not in the work was changed: %v", found.Data)
	}
	before := s.has("a", "one").UID
	if err := s.member.client.Delete(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}); err != nil {
		s.Fatal(err)
	}
	eventually(s, "the ConfigMap is made anew", func() error {
		if s.has("a", "one").UID == before {
			return errors.New("it is the old one")
		}
		return nil
	})
}

func laterDefinition(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(`{apiVersion: later.example.com/v1, kind: Gadget, metadata: {name: a, namespace: NS}, spec: {size: 1}}`, configMap("a", "one")))
	s.has("a", "one")
	s.says("a", workv1.ManifestWorkConditionApplied, "False AppliedManifestWorkFailed")
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "definition")
	s.admin(definition("later.example.com", "Gadget"))
	s.allow("later.example.com", "gadgets")
	s.applied("a")
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "later.example.com", Version: "v1", Kind: "Gadget"})
	gadget.SetNamespace(s.id)
	gadget.SetName("a")
	if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(gadget), gadget); err != nil {
		s.Error(err)
	}
	s.remove("a")
	s.goneFromMember(gadget)
}

// allow lets agents deliver a kind, as the administrator of the member does.
func (s *scene) allow(group, resource string) {
	s.Helper()
	s.admin(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS-more, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
  rules: [{apiGroups: [%s], resources: [%s], verbs: [get, list, watch, create, patch, delete]}]}`, group, resource))
}

func laterNamespace(s *scene) {
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", s.fill("NS"))
	s.namespace()
	s.has("a", "one")
	s.applied("a")
}

func notAllowed(s *scene) {
	s.deliver("a", manifestsOf(`{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: NS}, spec: {attachRequired: false}}`))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "csidrivers", "open-cluster-management.io/aggregate-to-work")
	s.allow("storage.k8s.io", "csidrivers")
	s.applied("a")
	s.remove("a")
}

func notValid(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS}, spec: {ports: [{port: 100000}]}}`))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "port")
	s.deliver("a", manifestsOf(`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS}, spec: {ports: [{port: 80}]}}`))
	s.applied("a")
}

func notRight(s *scene) {
	s.refused("empty", "workload: {}", "manifests")
	s.refused("nameless", manifestsOf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS}}"), "name")
	s.refused("generated", manifestsOf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, generateName: a}}"), "generateName")
	s.refused("kindless", manifestsOf("{apiVersion: v1, metadata: {name: a, namespace: NS}}"), "kind")
	s.refused("twice", manifestsOf(configMap("a", "one"), configMap("a", "two")), "a")
	s.refused("big", manifestsOf(configMap("a", strings.Repeat("x", 512001))), "512000")
}

func big(s *scene) {
	s.namespace()
	var manifests []string
	for i := range 200 {
		manifests = append(manifests, configMap(fmt.Sprintf("a-%d", i), strings.Repeat("x", 2200)))
	}
	s.deliver("a", manifestsOf(manifests...))
	if work := s.applied("a"); len(work.Status.ResourceStatus.Manifests) != len(manifests) {
		s.Errorf("the status tells of %d manifests, want %d", len(work.Status.ResourceStatus.Manifests), len(manifests))
	}
	s.remove("a")
	s.holds(0)
}

// holds waits until the namespace has n ConfigMaps of works.
func (s *scene) holds(n int) {
	s.Helper()
	eventually(s, fmt.Sprintf("the member has %d ConfigMaps", n), func() error {
		list := &corev1.ConfigMapList{}
		if err := s.member.client.List(s.Context(), list, client.InNamespace(s.id), client.HasLabels{workv1.LabelManaged}); err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}

func many(s *scene) {
	const works = 20
	s.namespace()
	for i := range works {
		s.deliver(fmt.Sprint(i), manifestsOf(configMap(fmt.Sprintf("a-%d", i), "one"), configMap(fmt.Sprintf("b-%d", i), "one")))
	}
	for i := range works {
		s.applied(fmt.Sprint(i))
	}
	s.holds(2 * works)
	for i := range works {
		s.startRemoving(fmt.Sprint(i))
	}
	for i := range works {
		s.gone(fmt.Sprint(i))
	}
	s.holds(0)
}

func shared(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	s.deliver("b", manifestsOf(configMap("a", "one")))
	s.applied("b")
	before := s.has("a", "one").UID
	s.remove("a")
	if after := s.has("a", "one").UID; after != before {
		s.Error("the object was made anew when the first work went")
	}
	s.remove("b")
	s.hasNot("a")
}

// rivals lets two works want one object. The second one is refused without a write,
// and goes on to be, however often it tries.
func rivals(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	before := s.has("a", "one").ResourceVersion
	s.deliver("b", manifestsOf(configMap("a", "two")))
	s.message("b", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", s.work("a", "{}").Name)
	if after := s.remains("a", "one").ResourceVersion; after != before {
		s.Errorf("the object was written while both want it: its version was %s and is %s", before, after)
	}
	s.applied("a")
	s.remove("a")
	s.has("a", "two")
	s.applied("b")
}

func executor(s *scene) {
	s.admin(`
apiVersion: v1
kind: Namespace
metadata: {name: NS}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: NS}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, update, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: NS}]`)
	s.deliver("a", "executor: {subject: {type: ServiceAccount, serviceAccount: {name: deployer, namespace: NS}}}\n"+
		manifestsOf(configMap("a", "one"), `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: NS}, stringData: {a: b}}`))
	s.has("a", "one")
	s.message("a", 0, workv1.ManifestConditionApplied, "True AppliedManifestComplete")
	s.message("a", 1, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "executor", "secrets")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "deployer"}}
	s.patchMember(role, `{"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["get","create","update","patch","delete"]}]}`)
	s.applied("a")
}

func nothingLeft(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one"), definition("gone.example.com", "Leaf")))
	s.applied("a")
	s.remove("a")
	s.hasNot("a")
	s.goneFromMember(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "leafs.gone.example.com"}})
	eventually(s, "no AppliedManifestWork is left", func() error { return s.noRecord(s.work("a", "{}").Name) })
}

// noRecord returns an error if the member has an AppliedManifestWork of a work
// whose name begins so.
func (s *scene) noRecord(prefix string) error {
	list := &workv1.AppliedManifestWorkList{}
	if err := s.member.client.List(s.Context(), list); err != nil {
		return err
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Spec.ManifestWorkName, prefix) {
			return fmt.Errorf("there is %s", list.Items[i].Name)
		}
	}
	return nil
}
