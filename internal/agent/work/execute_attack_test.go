// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestExecutorAsksNothingWhenNothingIsWritten(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	count := &atomic.Int64{}
	s.start(agentOptions{wrap: counting(count)})
	var manifests []string
	for i := range 20 {
		manifests = append(manifests, s.configMap(fmt.Sprintf("m-%d", i), "1"))
	}
	s.create(s.as(s.work("w", manifests...)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	if asked := count.Load(); asked != int64(len(everyVerb)) {
		t.Errorf("for 20 objects of a type in a namespace, %d reviews, want one for each of %v", asked, everyVerb)
	}
	count.Store(0)
	s.change("w", func(w *workv1.ManifestWork) {
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Foreground"}
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
	if asked := count.Load(); asked != 0 {
		t.Errorf("%d reviews although nothing is written", asked)
	}
}

func TestExecutorForgetsKeptDecisionsWhenBindingsChange(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	count := &atomic.Int64{}
	s.start(agentOptions{wrap: counting(count), part: PartOptions{KeepExecutorDecisions: true}})
	s.create(s.as(s.work("w", s.configMap("a", "0"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	value, asked := 0, int64(-1)
	change := func() {
		value++
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", fmt.Sprint(value))) })
		s.has("a", fmt.Sprint(value))
	}
	s.eventually("decisions are kept", func() error { // once nothing changed for a while
		before := count.Load()
		change()
		if asked = count.Load() - before; asked != 0 {
			return fmt.Errorf("%d reviews for a change", asked)
		}
		return nil
	})
	s.revoke("configmaps")
	s.eventually("the decision is taken anew", func() error {
		value++
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", fmt.Sprint(value))) })
		work, err := s.get("w")
		if err == nil && !strings.HasPrefix(message(work, 0, "Applied"), "False AppliedManifestFailed: The executor") {
			err = fmt.Errorf("it says %q", message(work, 0, "Applied"))
		}
		return err
	})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "configmaps"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "configmaps"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.ns(), Name: "robot"}},
	})
	s.has("a", fmt.Sprint(value))
	s.condition("w", "Applied", metav1.ConditionTrue)
}

// TestExecutorIsNotMisledByAFakedScope: rights in one namespace are no rights for what is in
// none, whatever the manifest says of its namespace.
func TestExecutorIsNotMisledByAFakedScope(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("*", "*", "*")
	s.start(agentOptions{})
	elsewhere := s.cluster // the namespace on the hub, here the same server
	s.create(s.as(s.work("w",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s-new","namespace":%q}}`, s.cluster, s.ns()),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, s.ns()),
		strings.Replace(s.clusterRoleBinding(s.cluster+"-root", "cluster-admin"), `"metadata":{`, fmt.Sprintf(`"metadata":{"namespace":%q,`, s.ns()), 1),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nowhere"}}`,
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":%q}}`, elsewhere),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice","namespace":%q},"metadata":{"name":"twice","namespace":%q}}`, s.ns(), elsewhere),
		s.configMap("fine", "1"),
	)))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "may not get, create, update, patch, delete namespaces "+s.cluster+"-new", "Create a ClusterRole on")
	s.contains(message(work, 1, "Applied"), "may not get, create, update, patch, delete namespaces "+s.ns(), "Create a ClusterRole on")
	s.contains(message(work, 2, "Applied"), "may not get, create, update, patch, delete clusterrolebindings.rbac.authorization.k8s.io "+s.cluster+"-root", "ClusterRoleBinding")
	s.contains(message(work, 3, "Applied"), "set metadata.namespace")
	s.contains(message(work, 4, "Applied"), "configmaps "+elsewhere+"/a", `Role in namespace "`+elsewhere+`"`)
	s.contains(message(work, 5, "Applied"), "configmaps "+elsewhere+"/twice")
	s.contains(message(work, 6, "Applied"), "True AppliedManifestComplete")
	found := &corev1.ConfigMapList{}
	if err := s.client.List(t.Context(), found, client.HasLabels{workv1.LabelManaged}, client.InNamespace(elsewhere)); err != nil || len(found.Items) > 0 {
		t.Errorf("elsewhere there are %v, %v", found.Items, err)
	}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: s.cluster + "-root"}, &rbacv1.ClusterRoleBinding{}); !apierrors.IsNotFound(err) {
		t.Errorf("the binding is there: %v", err)
	}
}

func TestADeletedRecordOfAnExecutorIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	record := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: s.has("a", "1").OwnerReferences[0].Name}}
	if err := s.client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	s.eventually("one record is there, and owns the object", func() error {
		records := &workv1.AppliedManifestWorkList{}
		if err := s.client.List(t.Context(), records); err != nil {
			return err
		}
		var ours []string
		for i := range records.Items {
			if records.Items[i].Spec.AgentID == "agent-of-"+s.cluster && records.Items[i].DeletionTimestamp == nil {
				ours = append(ours, string(records.Items[i].UID))
			}
		}
		cm, _, err := s.value("a")
		if err == nil && (len(ours) != 1 || len(cm.OwnerReferences) != 1 || string(cm.OwnerReferences[0].UID) != ours[0]) {
			err = fmt.Errorf("records %v, owners %v", ours, cm.OwnerReferences)
		}
		return err
	})
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

// TestAnExecutorThatCannotBeIsNobody: the hub lets names pass that no ServiceAccount has.
func TestAnExecutorThatCannotBeIsNobody(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		w.Spec.Executor = s.executor("robot")
		w.Spec.Executor.Subject.ServiceAccount.Namespace = "a.b"
		setManifests(w, s.configMap("a", "2"), s.configMap("b", "1"))
	})
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	for i := range 2 {
		s.contains(message(work, i, "Applied"), `False AppliedManifestFailed: The executor is not a ServiceAccount: subject.serviceAccount.namespace "a.b"`)
	}
	s.has("a", "1")
	s.hasNot("b")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestExecutorAppliesNoKindsThatArePartsOfOthers(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowEverywhere("-all", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	s.start(agentOptions{})
	var manifests []string
	for _, kind := range []string{"autoscaling/v1 Scale", "v1 Binding", "policy/v1 Eviction", "authentication.k8s.io/v1 TokenRequest", "authorization.k8s.io/v1 SubjectAccessReview"} {
		version, kind, _ := strings.Cut(kind, " ")
		manifests = append(manifests, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"robot","namespace":%q}}`, version, kind, s.ns()))
	}
	manifests = append(manifests, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"robot"},"spec":{}}`)
	s.create(s.as(s.work("w", manifests...)))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	for i := range manifests[:len(manifests)-1] {
		s.contains(message(work, i, "Applied"), "The cluster does not know the kind")
	}
	s.contains(message(work, len(manifests)-1, "Applied"), "issued to the user who creates it")
	s.delete("w")
	s.gone("w")
}

// reviewCount counts the reviews of permissions.
type reviewCount struct {
	http.RoundTripper
	count *atomic.Int64
}

func (r *reviewCount) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/subjectaccessreviews") {
		r.count.Add(1)
	}
	return r.RoundTripper.RoundTrip(request)
}

func counting(count *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &reviewCount{RoundTripper: next, count: count} }
}
