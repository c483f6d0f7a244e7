// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

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
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func delivering() []TestCase {
	return []TestCase{
		{Name: "a work of many kinds arrives whatever its order", Run: manyKinds},
		{Name: "the status of a work reports each object and the generation", Run: statusOfObjects},
		{Name: "a change of a work arrives", Run: change},
		{Name: "an object that leaves a work leaves the member", Run: prune},
		{Name: "an object that somebody changes or deletes is restored", Run: drift},
		{Name: "a kind whose CRD is created later is delivered then", Run: laterDefinition},
		{Name: "a namespace that is created later gets its objects then", Run: laterNamespace},
		{Name: "a kind that is not allowed says what to allow, and arrives when it is", Run: notAllowed},
		{Name: "an object that the member rejects says why, and arrives when it is fixed", Run: notValid},
		{Name: "an invalid work is rejected by the hub", Run: notRight},
		{Name: "a big work arrives, up to the limit", Run: big},
		{Name: "many works arrive", Run: many},
		{Name: "two works that agree share an object; it is deleted with the last", Run: shared},
		{Name: "two works that disagree do not fight; the second gets its turn", Run: rivals},
		{Name: "an executor's permissions limit a work, and more permissions help", Run: executor},
		{Name: "a deleted work waits for its objects and says for which", Run: foreground},
		{Name: "orphaned objects stay, without an owner", Run: orphan},
		{Name: "orphaning rules select which objects stay", Run: selectivelyOrphan},
		{Name: "a finished work is deleted after its TTL", Run: timeToLive},
		{Name: "a deleted work leaves nothing on the member", Run: nothingLeft},
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

func manyKinds(s *Scene) {
	s.Deliver("all", manifestsOf(
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
	s.Applied("all")
	s.Has("a", "one")
	s.Remove("all")
	s.GoneFromMember(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ID}})
}

// definition is a manifest of a CustomResourceDefinition.
func definition(group, kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]ss.%[1]s}, spec: {group: %[1]s, scope: Namespaced, names: {plural: %[2]ss, singular: %[2]s, kind: %[3]s, listKind: %[3]sList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
		group, singular, kind)
}

func statusOfObjects(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one"), `{apiVersion: v1, kind: Service, metadata: {name: b, namespace: NS}, spec: {ports: [{port: 80}]}}`))
	work := s.Applied("a")
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
	s.Deliver("a", manifestsOf(configMap("a", "two")))
	if work = s.Applied("a"); work.Generation != before+1 || len(work.Status.ResourceStatus.Manifests) != 1 {
		s.Errorf("after the change there is generation %d with %s, want %d with one manifest", work.Generation, installation.Encode(work.Status), before+1)
	}
}

func change(s *Scene) {
	s.Namespace()
	for _, value := range []string{"one", "two", "three"} {
		s.Deliver("a", manifestsOf(configMap("a", value)))
		s.Has("a", value)
	}
	s.Applied("a")
}

func prune(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.Applied("a")
	s.Deliver("a", manifestsOf(configMap("b", "one"), configMap("c", "one")))
	s.HasNot("a")
	s.Has("c", "one")
	s.Applied("a")
}

func drift(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	s.edit("a", `{"data":{"key":"changed","other":"mine"}}`)
	if found := s.Has("a", "one"); found.Data["other"] != "mine" {
		s.Errorf("a field that is not in the work was changed: %v", found.Data)
	}
	before := s.Has("a", "one").UID
	if err := s.Member.Client.Delete(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}); err != nil {
		s.Fatal(err)
	}
	installation.Eventually(s, "the ConfigMap is made anew", func() error {
		if s.Has("a", "one").UID == before {
			return errors.New("it is the old one")
		}
		return nil
	})
}

func laterDefinition(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(`{apiVersion: later.example.com/v1, kind: Gadget, metadata: {name: a, namespace: NS}, spec: {size: 1}}`, configMap("a", "one")))
	s.Has("a", "one")
	s.says("a", workv1.ManifestWorkConditionApplied, "False AppliedManifestWorkFailed")
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "definition")
	s.admin(definition("later.example.com", "Gadget"))
	s.Allow("later.example.com", "gadgets")
	s.Applied("a")
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "later.example.com", Version: "v1", Kind: "Gadget"})
	gadget.SetNamespace(s.ID)
	gadget.SetName("a")
	if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(gadget), gadget); err != nil {
		s.Error(err)
	}
	s.Remove("a")
	s.GoneFromMember(gadget)
}

// Allow lets agents deliver a kind, as the administrator of the member does.
func (s *Scene) Allow(group, resource string) {
	s.Helper()
	s.admin(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS-more, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
  rules: [{apiGroups: [%s], resources: [%s], verbs: [get, list, watch, create, patch, delete]}]}`, group, resource))
}

func laterNamespace(s *Scene) {
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", s.fill("NS"))
	s.Namespace()
	s.Has("a", "one")
	s.Applied("a")
}

func notAllowed(s *Scene) {
	s.Deliver("a", manifestsOf(`{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: NS}, spec: {attachRequired: false}}`))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "csidrivers", "open-cluster-management.io/aggregate-to-work")
	s.Allow("storage.k8s.io", "csidrivers")
	s.Applied("a")
	s.Remove("a")
}

func notValid(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS}, spec: {ports: [{port: 100000}]}}`))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "port")
	s.Deliver("a", manifestsOf(`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS}, spec: {ports: [{port: 80}]}}`))
	s.Applied("a")
}

func notRight(s *Scene) {
	s.refused("empty", "workload: {}", "manifests")
	s.refused("nameless", manifestsOf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS}}"), "name")
	s.refused("generated", manifestsOf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, generateName: a}}"), "generateName")
	s.refused("kindless", manifestsOf("{apiVersion: v1, metadata: {name: a, namespace: NS}}"), "kind")
	s.refused("twice", manifestsOf(configMap("a", "one"), configMap("a", "two")), "a")
	s.refused("big", manifestsOf(configMap("a", strings.Repeat("x", 512001))), "512000")
}

func big(s *Scene) {
	s.Namespace()
	var manifests []string
	for i := range 200 {
		manifests = append(manifests, configMap(fmt.Sprintf("a-%d", i), strings.Repeat("x", 2200)))
	}
	s.Deliver("a", manifestsOf(manifests...))
	if work := s.Applied("a"); len(work.Status.ResourceStatus.Manifests) != len(manifests) {
		s.Errorf("the status tells of %d manifests, want %d", len(work.Status.ResourceStatus.Manifests), len(manifests))
	}
	s.Remove("a")
	s.holds(0)
}

// holds waits until the namespace has n ConfigMaps of works.
func (s *Scene) holds(n int) {
	s.Helper()
	installation.Eventually(s, fmt.Sprintf("the member has %d ConfigMaps", n), func() error {
		list := &corev1.ConfigMapList{}
		if err := s.Member.Client.List(s.Context(), list, client.InNamespace(s.ID), client.HasLabels{workv1.LabelManaged}); err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}

func many(s *Scene) {
	const works = 20
	s.Namespace()
	for i := range works {
		s.Deliver(fmt.Sprint(i), manifestsOf(configMap(fmt.Sprintf("a-%d", i), "one"), configMap(fmt.Sprintf("b-%d", i), "one")))
	}
	for i := range works {
		s.Applied(fmt.Sprint(i))
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

func shared(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	s.Deliver("b", manifestsOf(configMap("a", "one")))
	s.Applied("b")
	before := s.Has("a", "one").UID
	s.Remove("a")
	if after := s.Has("a", "one").UID; after != before {
		s.Error("the object was made anew when the first work went")
	}
	s.Remove("b")
	s.HasNot("a")
}

// rivals lets two works want one object. The second one is refused without a write,
// and goes on to be, however often it tries.
func rivals(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	before := s.Has("a", "one").ResourceVersion
	s.Deliver("b", manifestsOf(configMap("a", "two")))
	s.message("b", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", s.work("a", "{}").Name)
	if after := s.remains("a", "one").ResourceVersion; after != before {
		s.Errorf("the object was written while both want it: its version was %s and is %s", before, after)
	}
	s.Applied("a")
	s.Remove("a")
	s.Has("a", "two")
	s.Applied("b")
}

func executor(s *Scene) {
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
	s.Deliver("a", "executor: {subject: {type: ServiceAccount, serviceAccount: {name: deployer, namespace: NS}}}\n"+
		manifestsOf(configMap("a", "one"), `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: NS}, stringData: {a: b}}`))
	s.Has("a", "one")
	s.message("a", 0, workv1.ManifestConditionApplied, "True AppliedManifestComplete")
	s.message("a", 1, workv1.ManifestConditionApplied, "False AppliedManifestFailed", "executor", "secrets")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "deployer"}}
	s.patchMember(role, `{"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["get","create","update","patch","delete"]}]}`)
	s.Applied("a")
}

func nothingLeft(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one"), definition("gone.example.com", "Leaf")))
	s.Applied("a")
	s.Remove("a")
	s.HasNot("a")
	s.GoneFromMember(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "leafs.gone.example.com"}})
	installation.Eventually(s, "no AppliedManifestWork is left", func() error { return s.noRecord(s.work("a", "{}").Name) })
}

// noRecord returns an error if the member has an AppliedManifestWork of a work
// whose name begins so.
func (s *Scene) noRecord(prefix string) error {
	list := &workv1.AppliedManifestWorkList{}
	if err := s.Member.Client.List(s.Context(), list); err != nil {
		return err
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Spec.ManifestWorkName, prefix) {
			return fmt.Errorf("there is %s", list.Items[i].Name)
		}
	}
	return nil
}
