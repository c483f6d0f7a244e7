// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/propagation/rights"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/mapper"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// hub is an API server with the account of the propagation controller, as the
// operator installs it.
type hub struct {
	config *rest.Config
	root   client.Client
	// account is the controller's.
	account client.Client
	events  *clientevents.FakeRecorder
}

func startHub(t testing.TB) *hub {
	t.Helper()
	definitions, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	_, admin := servers.Start(t, func(e *envtest.Environment) { e.CRDs = definitions })
	h := &hub{config: admin, root: newClient(t, admin), events: clientevents.NewFakeRecorder(16)}
	who := env.ServiceAccountReview(operatorv1.DefaultHubNamespace, fleetv1alpha1.PropagationServiceAccount)
	as := rest.CopyConfig(admin)
	as.Impersonate = rest.ImpersonationConfig{UserName: who.User, Groups: who.Groups}
	h.account = newClient(t, as)
	cluster, _, err := config.Rules(config.PropagationController)
	if err != nil {
		t.Fatal(err)
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{"propagation": cluster, fleetv1alpha1.PropagationTemplatesRole: nil} {
		h.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
		h.create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Namespace: operatorv1.DefaultHubNamespace, Name: fleetv1alpha1.PropagationServiceAccount,
			}},
		})
	}
	env.WaitAllowed(t.Context(), t, admin, who, "", rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"escalate"},
		ResourceNames: []string{fleetv1alpha1.PropagationTemplatesRole},
	}, true)
	env.WaitAllowed(t.Context(), t, admin, who, "", rbacv1.PolicyRule{
		APIGroups: []string{policyv1alpha1.GroupName}, Resources: []string{"clusterpropagationpolicies"}, Verbs: []string{"list"},
	}, true)
	return h
}

// hubs are one for all tests: each has policies of its own, and removes them.
var hubs = env.NewFixtures(servers, startHub)

// newHub returns the hub with events of the test's own.
func newHub(t *testing.T) *hub {
	t.Helper()
	h := *hubs.ShareFixture(t)
	h.events = clientevents.NewFakeRecorder(16)
	return &h
}

func newClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(admissionv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (h *hub) create(t testing.TB, object client.Object) {
	t.Helper()
	if err := h.root.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (h *hub) remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := h.root.Delete(context.WithoutCancel(t.Context()), object); err != nil {
		t.Fatal(err)
	}
}

func (h *hub) controller(of meta.RESTMapper) *rights.TemplateRoleController {
	return rights.NewTemplateRoleController(h.account, mapper.NewExactMapper(of), events.NewRecorder(h.events))
}

func (h *hub) role(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := h.root.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.PropagationTemplatesRole}, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// may waits until the account may do it in all namespaces, or until it may not.
func (h *hub) may(t *testing.T, want bool, verb, group, resource string) {
	t.Helper()
	who := env.ServiceAccountReview(operatorv1.DefaultHubNamespace, fleetv1alpha1.PropagationServiceAccount)
	env.WaitAllowed(t.Context(), t, h.config, who, "", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}, want)
}

func policy(name string, selectors ...policyv1alpha1.ResourceSelector) *policyv1alpha1.PropagationPolicy {
	return &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1alpha1.PropagationSpec{ResourceSelectors: selectors},
	}
}

func deployments() policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
}

// pass lets the controller do its work once, and tells when it wants to be back.
func pass(t *testing.T, c *rights.TemplateRoleController) time.Duration {
	t.Helper()
	result, err := c.Reconcile(t.Context(), reconcile.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

func TestRightsFollowPolicies(t *testing.T) {
	h := newHub(t)
	c := h.controller(h.root.RESTMapper())
	if pass(t, c); len(h.role(t).Rules) != 0 {
		t.Errorf("without a policy there are rules: %v", h.role(t).Rules)
	}
	p := policy("web", deployments())
	p.Spec.PropagateDeps = true
	h.create(t, p)
	pass(t, c)
	h.may(t, true, "list", "apps", "deployments")
	h.may(t, true, "patch", "apps", "deployments")
	h.may(t, true, "patch", "apps", "deployments/status")
	h.may(t, true, "get", "", "secrets")
	for _, not := range [][3]string{
		{"patch", "", "secrets"}, {"delete", "apps", "deployments"}, {"create", "apps", "deployments"}, {"list", "apps", "statefulsets"},
	} {
		h.may(t, false, not[0], not[1], not[2])
	}
	before := h.role(t)
	if pass(t, c); h.role(t).ResourceVersion != before.ResourceVersion {
		t.Error("the role was written although nothing has changed")
	}
	h.remove(t, p)
	pass(t, c)
	h.may(t, false, "list", "apps", "deployments")
	if rules := h.role(t).Rules; len(rules) != 0 {
		t.Errorf("the policy is gone and these are left: %v", rules)
	}
}

// TestRightsFollowWhatCustomizedKindsNeed has a kind of which only its binding says what it needs: that counts as long as
// a policy sends what the kind needs, and not for kinds that are never sent.
func TestRightsFollowWhatCustomizedKindsNeed(t *testing.T) {
	h := newHub(t)
	c := h.controller(h.root.RESTMapper())
	p := policy("web", policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Service"})
	h.create(t, p)
	b := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "needs", Annotations: map[string]string{
			workv1alpha2.AnnotationDependencies: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"a"},{"apiVersion":"v1","kind":"Node","name":"a"}]`,
		}},
		Spec: workv1alpha2.ResourceBindingSpec{Resource: workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: metav1.NamespaceDefault, Name: "a"}},
	}
	h.create(t, b)
	pass(t, c)
	h.may(t, true, "list", "", "services")
	h.may(t, false, "get", "", "configmaps")
	p.Spec.PropagateDeps = true
	if err := h.root.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	pass(t, c)
	h.may(t, true, "get", "", "configmaps")
	h.may(t, false, "patch", "", "configmaps")
	h.may(t, false, "get", "", "nodes")
	h.remove(t, b)
	h.remove(t, p)
	pass(t, c)
	h.may(t, false, "get", "", "configmaps")
}

// TestRightsStayAsLongAsThereAreBindings has bindings that are left when no policy selects their kinds any more, and
// one of a kind that none ever did.
func TestRightsStayAsLongAsThereAreBindings(t *testing.T) {
	h := newHub(t)
	c := h.controller(h.root.RESTMapper())
	p := policy("web", deployments())
	p.Spec.PropagateDeps = true
	h.create(t, p)
	binding := func(apiVersion, kind string) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + strings.ToLower(kind)}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "default", Name: "web"}
		return b
	}
	sent, attached, forged := binding("apps/v1", "Deployment"), binding("v1", "ConfigMap"), binding("v1", "Pod")
	for _, b := range []*workv1alpha2.ResourceBinding{sent, attached, forged} {
		h.create(t, b)
	}
	pass(t, c)
	h.remove(t, p)
	if after := pass(t, c); after == 0 {
		t.Error("it does not look whether the bindings are gone")
	}
	h.may(t, false, "get", "", "secrets") // nothing is left of these
	h.may(t, true, "patch", "apps", "deployments")
	h.may(t, true, "get", "", "configmaps")
	for _, not := range [][3]string{{"patch", "", "configmaps"}, {"get", "", "pods"}} {
		h.may(t, false, not[0], not[1], not[2])
	}
	h.remove(t, sent)
	h.remove(t, attached)
	h.remove(t, forged)
	if after := pass(t, c); after != 0 || len(h.role(t).Rules) != 0 {
		t.Errorf("all bindings are gone, and it wants to be back after %v with %v", after, h.role(t).Rules)
	}
}

func TestRightsOfAKindThatComesLater(t *testing.T) {
	h := newHub(t)
	p := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
			{APIVersion: "example.com/v1", Kind: "Widget"}, deployments(),
		}},
	}
	h.create(t, p)
	t.Cleanup(func() { h.remove(t, p) })
	c := h.controller(h.root.RESTMapper())
	first := pass(t, c)
	if second := pass(t, c); first <= 0 || second <= first {
		t.Errorf("it looks for the kind again after %v and %v, want it to do so ever more rarely", first, second)
	}
	h.may(t, true, "list", "apps", "deployments") // whatever the other kind is
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"}
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(h.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		t.Fatal(err)
	}
	if after := pass(t, c); after != 0 {
		t.Errorf("the kind is there and it wants to be back after %v", after)
	}
	h.may(t, true, "watch", "example.com", "widgets")
}

// failing is a mapper that cannot tell about a group.
type failing struct {
	meta.RESTMapper
	group string
}

func (f failing) RESTMapping(of schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if of.Group == f.group {
		return nil, errors.New("the server of the group is away")
	}
	return f.RESTMapper.RESTMapping(of, versions...)
}

func TestRightsStayWhileNobodyCanTell(t *testing.T) {
	h := newHub(t)
	mine := policy("mine", deployments())
	h.create(t, mine)
	t.Cleanup(func() { h.remove(t, mine) })
	pass(t, h.controller(h.root.RESTMapper()))
	before := h.role(t).Rules
	jobs := policy("jobs", policyv1alpha1.ResourceSelector{APIVersion: "batch/v1", Kind: "Job"})
	h.create(t, jobs)
	t.Cleanup(func() { h.remove(t, jobs) })
	if after := pass(t, h.controller(failing{h.root.RESTMapper(), "apps"})); after == 0 {
		t.Error("it does not look again for a kind of which nobody can tell")
	}
	rules := h.role(t).Rules
	for _, rule := range before {
		if !slices.ContainsFunc(rules, func(now rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(now, rule) }) {
			t.Errorf("%v is lost, as nobody can tell of the group", rule)
		}
	}
	h.may(t, true, "list", "batch", "jobs")
}

func TestRightsAreNotForReservedKinds(t *testing.T) {
	h := newHub(t)
	p := policy("reserved", deployments(),
		policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Node"}, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "event"},
		policyv1alpha1.ResourceSelector{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"})
	h.create(t, p)
	t.Cleanup(func() { h.remove(t, p) })
	c := h.controller(h.root.RESTMapper())
	pass(t, c)
	pass(t, c)
	h.may(t, true, "list", "apps", "deployments")
	h.may(t, false, "get", "", "nodes")
	h.may(t, false, "get", "", "events") // by whatever name: the fence would admit no rules at all
	h.may(t, false, "list", "certificates.k8s.io", "certificatesigningrequests")
	select {
	case event := <-h.events.Events:
		for _, want := range []string{rights.ReasonKindReserved, "Node of v1", "CertificateSigningRequest of certificates.k8s.io/v1", "resourceSelectors", "ManifestWork"} {
			if !strings.Contains(event, want) {
				t.Errorf("the event says %q, which lacks %q", event, want)
			}
		}
	default:
		t.Error("nobody is told")
	}
	if len(h.events.Events) > 0 {
		t.Errorf("it is told again: %q", <-h.events.Events)
	}
}
