// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// records returns those of the scene's agent.
func (s *scene) records() ([]workv1.AppliedManifestWork, error) {
	list := &workv1.AppliedManifestWorkList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		return nil, err
	}
	var ours []workv1.AppliedManifestWork
	for i := range list.Items {
		if list.Items[i].Spec.AgentID == "agent-of-"+s.cluster {
			ours = append(ours, list.Items[i])
		}
	}
	return ours, nil
}

// TestRightsThatAWorkBringsGoAfterWhatTheyAreFor deletes a work with a role that the agent, or who removes a
// finalizer, may need for the other objects.
func TestRightsThatAWorkBringsGoAfterWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	role := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":%q}}`, s.ns())
	s.create(s.work("w", role, s.configMap("held", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	held := s.has("held", "1")
	hold := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	if err := s.client.Patch(t.Context(), held, hold); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.deleting("w", "held by its finalizers example.com/hold")
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "r"}, &rbacv1.Role{}); err != nil {
		t.Errorf("the role went before what it is for: %v", err)
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.client.Patch(t.Context(), held, free); err != nil {
		t.Fatal(err)
	}
	s.gone("w")
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "r"}, &rbacv1.Role{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role is still there: %v", err)
	}
	s.nothingLeft()
}

// TestNobodyAsksForWhatIsGoneOnceTheRightsGo deletes a work with a definition, an object of it, and the
// rights to it, but for the right to watch it. Once the binding is gone, and the
// role is held, the agent may not even look for the object; it has to know that
// it is gone.
func TestNobodyAsksForWhatIsGoneOnceTheRightsGo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	cluster := rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName, "apiextensions.k8s.io"}, Verbs: []string{"*"},
		Resources: []string{"clusterroles", "clusterrolebindings", "customresourcedefinitions"},
	}
	config, _ := s.user(records, cluster)
	s.start(agentOptions{spoke: config})
	const right = `{"apiGroups":["example.com"],"resources":["gadgets"],"verbs":["get","create","patch","delete"]}`
	name := s.ns() + "-gadgets"
	s.create(s.work("w", fmt.Sprintf(widgets, "gadget", "Gadget"),
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g","namespace":%q},"spec":{"size":3}}`, s.ns()),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[%s]}`, name, right),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},`+
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},`+
			`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, name, s.cluster)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	hold := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	if err := s.client.Patch(t.Context(), role, hold); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.deleting("w", "held by its finalizers example.com/hold")
	env.WaitAllowed(t.Context(), t, s.config, authorizationv1.SubjectAccessReviewSpec{User: s.cluster}, s.ns(),
		rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"gadgets"}, Verbs: []string{"get"}}, false)
	s.nudge("w")
	s.deleting("w", "held by its finalizers example.com/hold")
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.client.Patch(t.Context(), role, free); err != nil {
		t.Fatal(err)
	}
	s.gone("w")
	s.nothingLeft()
}

// record waits until the scene has one record with n objects.
func (s *scene) record(n int) *workv1.AppliedManifestWork {
	s.t.Helper()
	var found *workv1.AppliedManifestWork
	s.eventually(fmt.Sprintf("there is one record with %d objects", n), func() error {
		records, err := s.records()
		if err == nil && (len(records) != 1 || strings.HasPrefix(records[0].Name, ledger.KeeperPrefix) || len(records[0].Status.AppliedResources) != n || records[0].DeletionTimestamp != nil) {
			err = fmt.Errorf("there are %+v", records)
		}
		if err == nil {
			found = &records[0]
		}
		return err
	})
	return found
}

// deleting waits until the condition Deleting has all the texts.
func (s *scene) deleting(name string, wants ...string) {
	s.t.Helper()
	s.eventually("the condition Deleting says why", func() error {
		work, err := s.get(name)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionDeleting)
		if c == nil {
			return errors.New("there is none")
		}
		for _, want := range wants {
			if !strings.Contains(c.Message, want) {
				return fmt.Errorf("%q does not have %q", c.Message, want)
			}
		}
		return nil
	})
}

// hanging holds up the writes of an object until their context ends.
type hanging struct {
	http.RoundTripper
	object string
	begun  chan struct{}
}

func (h *hanging) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/"+h.object) {
		select {
		case h.begun <- struct{}{}:
		default:
		}
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return h.RoundTripper.RoundTrip(request)
}

func TestDeletionDoesNotWaitForRequestsThatHang(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	begun := make(chan struct{}, 1)
	s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper {
		return &hanging{RoundTripper: rt, object: "hangs", begun: begun}
	}})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("hangs", "1")))
	<-begun
	s.has("a", "1")
	start := time.Now()
	s.delete("w")
	s.gone("w")
	if took := time.Since(start); took > patience/2 { // the request has patience, too
		t.Errorf("the deletion took %s", took)
	}
	s.nothingLeft()
}

func TestAWorkThatIsMadeAgainAtOnceIsDeletedAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	begun := make(chan struct{}, 1)
	s.start(agentOptions{part: PartOptions{Workers: 1}, wrap: func(rt http.RoundTripper) http.RoundTripper {
		return &hanging{RoundTripper: rt, object: "hangs", begun: begun}
	}})
	work := s.work("w", s.configMap("a", "1"))
	work.Finalizers = []string{"example.com/stay"}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.hasNot("a")
	s.eventually("the agent is done with the work", func() error {
		work, err := s.get("w")
		if err == nil && len(work.Finalizers) != 1 {
			err = errors.New("it is not")
		}
		return err
	})
	// While the one worker is busy, the work is made again, so that nothing of the
	// one before is forgotten.
	s.create(s.work("h", s.configMap("hangs", "1")))
	<-begun
	s.change("w", func(w *workv1.ManifestWork) { w.Finalizers = nil })
	s.gone("w")
	s.create(s.work("w", s.configMap("a", "2")))
	s.delete("h")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	s.gone("h")
	s.hasNot("a")
	s.nothingLeft()
}

func TestDeletionIsNotHeldUpByAnObjectThatSomeoneElseDeleted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.record(2)
	first.stop()
	if err := s.client.Delete(t.Context(), s.has("a", "1")); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.start(agentOptions{})
	s.gone("w")
	s.hasNot("b")
	s.nothingLeft()
}

// gizmo makes a work with a definition of the plural and an object of it.
func (s *scene) gizmo(kind string) (definition, object client.Object) {
	lower := strings.ToLower(kind)
	s.create(s.work("definition", fmt.Sprintf(widgets, lower, kind)))
	s.create(s.work("w", s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":"g","namespace":%q},"spec":{"size":3}}`, kind, s.ns())))
	s.condition("w", "Applied", metav1.ConditionTrue)
	definition = unstructuredOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", lower+"s.example.com")
	object = unstructuredOf(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, s.ns(), "g")
	return definition, object
}

func TestADefinitionThatGoesBeforeItsObjectsTakesThemAlong(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	definition, _ := s.gizmo("Gizmo")
	s.change("definition", func(w *workv1.ManifestWork) {
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	})
	s.condition("definition", "Applied", metav1.ConditionTrue)
	s.delete("definition")
	s.gone("definition")
	if err := s.client.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	s.says("w", 1, "Applied", "kind Gizmo of example.com/v1")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestObjectsThatOutliveTheirDefinitionAreNamed(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	definition, object := s.gizmo("Gimmick")
	hold := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/wait"]}}`))
	if err := s.client.Patch(t.Context(), object, hold); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.deleting("w", "gimmicks.example.com", "example.com/wait", "since 20")
	free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.client.Patch(t.Context(), object, free); err != nil {
		t.Fatal(err)
	}
	s.gone("w")
	s.delete("definition")
	s.gone("definition")
	s.nothingLeft()
}

var records = rbacv1.PolicyRule{
	APIGroups: []string{workv1.GroupName}, Resources: []string{"appliedmanifestworks", "appliedmanifestworks/status"},
	Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
}

// user is a user with the rules, which allow changes.
func (s *scene) user(rules ...rbacv1.PolicyRule) (*rest.Config, *rbacv1.ClusterRole) {
	s.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.cluster}, Rules: rules}
	s.create(role)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.cluster},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.cluster},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: s.cluster}},
	})
	env.WaitAllowed(s.t.Context(), s.t, s.config, authorizationv1.SubjectAccessReviewSpec{User: s.cluster}, "", rules[0], true)
	user, err := s.environment.AddUser(envtest.User{Name: s.cluster}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return user.Config(), role
}

func (s *scene) allow(role *rbacv1.ClusterRole, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	role.Rules = rules
	if err := s.client.Update(s.t.Context(), role); err != nil {
		s.t.Fatal(err)
	}
	for _, verb := range []string{"patch", "delete"} { // which the API server knows only after a while
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: s.cluster, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "configmaps"},
		}}
		s.eventually("the API server knows the role", func() error {
			err := s.client.Create(s.t.Context(), review)
			if err == nil && review.Status.Allowed != slices.Contains(role.Rules[len(role.Rules)-1].Verbs, verb) {
				err = errors.New("it does not")
			}
			review.ResourceVersion = ""
			return err
		})
	}
}

func configMaps(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}
}

// nudge makes the agent look at a work again without a change of its spec.
func (s *scene) nudge(name string) {
	s.change(name, func(w *workv1.ManifestWork) { metav1.SetMetaDataAnnotation(&w.ObjectMeta, "nudge", "x") })
}

func TestDeletionSaysWhichRightTheAgentLost(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	config, role := s.user(records, configMaps("get", "list", "watch", "create", "patch"))
	s.start(agentOptions{spoke: config})
	s.create(s.work("w", s.configMap("a", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.deleting("w", "configmaps "+s.ns()+"/a", "The agent may not delete configmaps")
	s.allow(role, records, configMaps("get", "list", "watch", "create", "patch", "delete"))
	s.nudge("w")
	s.gone("w")
	s.nothingLeft()
}

func TestDeletionSaysThatItsRecordCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	less := records
	less.Verbs = []string{"get", "list", "watch", "create", "update", "patch"}
	maps := configMaps("get", "list", "watch", "create", "patch", "delete")
	config, role := s.user(less, maps)
	s.start(agentOptions{spoke: config})
	s.create(s.work("w", s.configMap("a", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.deleting("w", "cannot be removed", "ppliedmanifestworks.work.open-cluster-management.io", "cannot delete")
	s.allow(role, records, maps)
	s.nudge("w")
	s.gone("w")
	s.nothingLeft()
}

// shifted is a clock that is off.
type shifted struct {
	clock.RealClock
	by time.Duration
}

func (c shifted) Now() time.Time                  { return time.Now().Add(c.by) }
func (c shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestAClockThatIsOffChangesNothing has a clock that is two hours off: nothing happens
// earlier or later for that.
func TestAClockThatIsOffChangesNothing(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"two hours ahead": 2 * time.Hour, "two hours behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := takeScene(t)
			first := s.start(agentOptions{part: PartOptions{Clock: shifted{by: by}}})
			s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
			s.create(s.work("v", s.configMap("c", "1")))
			s.condition("w", "Applied", metav1.ConditionTrue)
			s.condition("v", "Applied", metav1.ConditionTrue)
			if err := s.client.Delete(t.Context(), s.has("a", "1")); err != nil {
				t.Fatal(err)
			}
			s.has("a", "1")
			s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", "2")) })
			s.has("a", "2")
			s.hasNot("b")
			s.delete("w")
			s.gone("w")
			first.stop()
			s.change("v", func(w *workv1.ManifestWork) { w.Finalizers = nil })
			s.delete("v")
			s.start(agentOptions{part: PartOptions{Clock: shifted{by: by}, EvictionGracePeriod: 2 * time.Second}})
			s.eventually("the grace period has begun", func() error {
				records, err := s.records()
				if err == nil && (len(records) != 1 || records[0].Status.EvictionStartTime == nil) {
					err = fmt.Errorf("there are %+v", records)
				}
				return err
			})
			s.has("c", "1")
			s.hasNot("c")
			s.nothingLeft()
		})
	}
}
