// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/env"
)

var everyVerb = []string{"get", "create", "update", "patch", "delete"}

// The rights of the executors in these tests are those that a real API server gives them.

// as makes the work one of the executor "robot" in the member's namespace.
func (s *scene) as(work *workv1.ManifestWork) *workv1.ManifestWork {
	work.Spec.Executor = s.executor("robot")
	return work
}

func (s *scene) executor(name string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: s.ns(), Name: name},
	}}
}

// allowHere gives the executor a right in the member's namespace, by a Role of the
// resource's name, and waits until it has it.
func (s *scene) allowHere(group, resource string, verbs ...string) {
	s.t.Helper()
	rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: resource}, Rules: []rbacv1.PolicyRule{rule}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: resource},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: resource},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.ns(), Name: "robot"}},
	})
	env.WaitAllowed(s.t.Context(), s.t, s.config, env.ServiceAccountReview(s.ns(), "robot"), s.ns(), rule, true)
}

// allowEverywhere gives the executor a right in the whole member.
func (s *scene) allowEverywhere(name string, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.cluster + name}, Rules: rules})
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.cluster + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.cluster + name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.ns(), Name: "robot"}},
	})
	env.WaitAllowed(s.t.Context(), s.t, s.config, env.ServiceAccountReview(s.ns(), "robot"), s.ns(), rules[0], true)
}

func (s *scene) revoke(resource string) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: resource}}); err != nil {
		s.t.Fatal(err)
	}
}

// says waits until a condition of a manifest contains all the texts.
func (s *scene) says(work string, ordinal int, conditionType string, wants ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("manifest %d of %s says %q", ordinal, work, wants), func() error {
		w, err := s.get(work)
		if err != nil {
			return err
		}
		got := message(w, ordinal, conditionType)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				return fmt.Errorf("it says %q", got)
			}
		}
		return nil
	})
}

func (s *scene) drift(name, value string) {
	s.t.Helper()
	cm, _, err := s.value(name)
	if err == nil {
		cm.Data["key"] = value
		err = s.client.Update(s.t.Context(), cm)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) secret(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":%q},"stringData":{"key":"x"}}`, name, s.ns())
}

func TestExecutorDoesWhatItMay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"), s.configMap("b", "1"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("w", "Available", metav1.ConditionTrue)
	s.drift("a", "drifted")
	s.has("a", "1")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("b", "2")) })
	s.has("b", "2")
	s.hasNot("a")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestExecutorSaysWhatItMayNot(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", "get", "update", "delete")
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"))))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "False AppliedManifestFailed: The executor system:serviceaccount:"+s.ns()+":robot may not create, patch configmaps "+s.ns()+"/a",
		"no such ServiceAccount", `Create a Role in namespace "`+s.ns()+`"`, `apiGroups [""]`, `resources ["configmaps"]`, "verbs [get create update patch delete]", "RoleBinding")
	s.contains(message(work, 0, "Available"), "False ResourceNotAvailable")
	s.hasNot("a")
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "robot"}})
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", "2")) })
	work = s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "may not create, patch configmaps "+s.ns()+"/a. Create a Role")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestExecutorAppliesTheRestOfAWork(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "theirs"}})
	s.create(s.as(s.work("w", s.secret("theirs"), s.configMap("a", "1"), s.secret("new"))))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "may not get, create, update, patch, delete secrets "+s.ns()+"/theirs")
	s.contains(message(work, 1, "Applied"), "True AppliedManifestComplete")
	// Whether a secret exists is none of the business of who may not get it.
	s.contains(message(work, 0, "Available"), "Unknown FetchingResourceFailed")
	s.contains(message(work, 2, "Available"), "Unknown FetchingResourceFailed")
	secret := &corev1.Secret{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "theirs"}, secret); err != nil || len(secret.OwnerReferences)+len(secret.Labels) > 0 {
		t.Errorf("the secret is %+v, %v", secret, err)
	}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "new"}, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the other secret: %v", err)
	}
}

func TestExecutorCanBeAllowedOneName(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a"}, Verbs: everyVerb}
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "named"}, Rules: []rbacv1.PolicyRule{rule}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "named"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "named"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + s.ns()}},
	})
	env.WaitAllowed(t.Context(), t, s.config, env.ServiceAccountReview(s.ns(), "robot"), s.ns(), rule, true)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"), s.configMap("b", "1"))))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "True AppliedManifestComplete")
	s.contains(message(work, 1, "Applied"), "configmaps "+s.ns()+"/b")
	s.has("a", "1")
	s.hasNot("b")
}

func (s *scene) clusterRoleBinding(name, role string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"kind":"ServiceAccount","namespace":%q,"name":"somebody"}]}`, name, role, s.ns())
}

func TestExecutorGrantsNoMoreThanItHas(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowEverywhere("-bindings", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: everyVerb})
	s.start(agentOptions{})
	name := s.cluster + "-root"
	s.create(s.as(s.work("w", s.clusterRoleBinding(name, "cluster-admin"))))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "may not write clusterrolebindings.rbac.authorization.k8s.io "+name,
		`the verb "bind"`, "not currently held")
	s.contains(message(work, 0, "Available"), "False ResourceNotAvailable")
	binding := &rbacv1.ClusterRoleBinding{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: name}, binding); !apierrors.IsNotFound(err) {
		t.Errorf("the binding is there: %v", err)
	}
	for _, strategy := range []*workv1.UpdateStrategy{
		{Type: workv1.UpdateStrategyTypeCreateOnly},
		{Type: workv1.UpdateStrategyTypeServerSideApply},
		{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{Force: true}},
	} {
		s.change("w", func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: name},
				UpdateStrategy:     strategy,
			}}
		})
		work = s.condition("w", "Applied", metav1.ConditionFalse)
		s.contains(message(work, 0, "Applied"), "not currently held")
	}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: name}, binding); !apierrors.IsNotFound(err) {
		t.Errorf("the binding is there: %v", err)
	}
	s.delete("w")
	s.gone("w")
}

func TestExecutorCanBeAllowedToBind(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowEverywhere("-bindings",
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: everyVerb},
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"cluster-admin"}, Verbs: []string{"bind"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.cluster + "-role"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}
	s.create(role)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.clusterRoleBinding(s.cluster+"-admin", "cluster-admin"), s.clusterRoleBinding(s.cluster+"-role", role.Name))))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "True AppliedManifestComplete")
	s.contains(message(work, 1, "Applied"), "may not write", s.cluster+"-role", "not currently held", "secrets")
	s.delete("w")
	s.gone("w")
}

func TestExecutorMakesARoleWithTheRulesOfItsAuthor(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere(rbacv1.GroupName, "roles", everyVerb...)
	s.allowHere("", "configmaps", "get")
	s.start(agentOptions{})
	role := func(verb string) string {
		return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":%q},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":[%q]}]}`, s.ns(), verb)
	}
	s.create(s.as(s.work("w", role("get"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, role("deletecollection")) })
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "roles.rbac.authorization.k8s.io "+s.ns()+"/r", `the verb "bind"`, "deletecollection")
	found := &rbacv1.Role{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "r"}, found); err != nil || found.Rules[0].Verbs[0] != "get" {
		t.Errorf("the role is %+v, %v", found.Rules, err)
	}
}

func TestExecutorUsesRightsThatComeLater(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"))))
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.allowHere("", "configmaps", everyVerb...)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.has("a", "1")
}

func TestExecutorCorrectsNothingOnceItsRightsAreTakenAway(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.revoke("configmaps")
	// The API server takes a moment to notice, in which drift is still mended.
	s.eventually("drift is not corrected any more", func() error {
		s.drift("a", "drifted")
		work, err := s.get("w")
		if got := message(work, 0, "Applied"); err == nil && !strings.HasPrefix(got, "False AppliedManifestFailed: The executor") {
			err = errors.New(got)
		}
		return err
	})
	s.drift("a", "drifted again")
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.has("a", "drifted again")
	if err := s.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "configmaps"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "configmaps"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.ns(), Name: "robot"}},
	}); err != nil {
		t.Fatal(err)
	}
	s.has("a", "1")
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestExecutorNeedsTheRightToGetForReading(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", "get")
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "r"}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "r"}})
	s.start(agentOptions{})
	work := s.as(s.work("w", s.configMap("r", "1"), s.secret("r")))
	for _, resource := range []string{"configmaps", "secrets"} {
		work.Spec.ManifestConfigs = append(work.Spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: resource, Namespace: s.ns(), Name: "r"},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
		})
	}
	s.create(work)
	work = s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Available"), "True ResourceAvailable")
	s.contains(message(work, 1, "Applied"), "may not get secrets "+s.ns()+"/r", "verbs [get]")
	s.contains(message(work, 1, "Available"), "Unknown FetchingResourceFailed")
}

func TestAnotherExecutorDoesNotTouchWhatIsWell(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"), s.configMap("b", "1"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		w.Spec.Executor = s.executor("other")
		setManifests(w, s.configMap("a", "1"), s.configMap("b", "2"))
	})
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "True")
	s.contains(message(work, 1, "Applied"), ":other may not")
	s.has("b", "1")
	s.change("w", func(w *workv1.ManifestWork) { w.Spec.Executor = nil })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.has("b", "2")
}

func TestRemovalDoesNotDependOnTheExecutor(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("", "configmaps", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.configMap("a", "1"), s.configMap("b", "1"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.revoke("configmaps")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("b", "1")) })
	s.hasNot("a")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAnAgentThatMayNotImpersonateSaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	user, _ := s.user(
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{workv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}})
	s.allowHere(rbacv1.GroupName, "roles", everyVerb...)
	s.start(agentOptions{spoke: user})
	s.create(s.as(s.work("w", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":%q},"rules":[]}`, s.ns()))))
	s.says("w", 0, "Applied", "False AppliedManifestFailed", "may not impersonate", "aggregate-to-work=true", `resources ["serviceaccounts"]`)
}
