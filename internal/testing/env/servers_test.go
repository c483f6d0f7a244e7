// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var servers = NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

const gadgets = "gadgets.example.com"

// gadget is a definition of a kind that a test may make.
func gadget(plural string) *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: strings.ToUpper(plural[:1]) + plural[1:], ListKind: plural + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
}

// client is an API server as its administrator sees it.
type client struct {
	kubernetes.Interface
	definitions apiextensions.Interface
	environment *envtest.Environment
	config      *rest.Config
}

func newClient(t testing.TB) client {
	t.Helper()
	environment, config := servers.Start(t, func(e *envtest.Environment) { e.CRDs = []*apiextensionsv1.CustomResourceDefinition{gadget("gadgets")} })
	return client{Interface: kubernetes.NewForConfigOrDie(config), definitions: apiextensions.NewForConfigOrDie(config), environment: environment, config: config}
}

// serves returns the error of listing a kind of example.com.
func (c client) serves(ctx context.Context, version, plural string) error {
	return c.Discovery().RESTClient().Get().AbsPath("/apis/example.com/" + version + "/" + plural).Do(ctx).Error()
}

// TestServersAreAsNew lets one test change what it can of a server, and the next one
// look for it: it has a server that is the same and knows nothing of it.
func TestServersAreAsNew(t *testing.T) {
	var before client
	t.Run("one test writes", func(t *testing.T) {
		before = newClient(t)
		before.change(t)
		before.takesEffect(t)
	})
	t.Run("the next finds nothing of it", func(t *testing.T) {
		c := newClient(t)
		c.isServerOf(t, before)
		if err := ignore(before.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})); err == nil {
			t.Error("the test before it still reaches the server")
		}
		c.isAsNew(t)
		user, err := c.environment.AddUser(envtest.User{Name: "somebody"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := user.Config().Host; !strings.HasPrefix(got, c.config.Host) {
			t.Errorf("a user is sent to %s, the administrator to %s", got, c.config.Host)
		}
	})
}

// TestPoliciesThatMutateAreForgotten has nothing else for which the server is waited for.
func TestPoliciesThatMutateAreForgotten(t *testing.T) {
	var before client
	t.Run("one test has a policy", func(t *testing.T) {
		before = newClient(t)
		registration, write := before.AdmissionregistrationV1(), metav1.CreateOptions{}
		if err := errors.Join(
			ignore(registration.MutatingAdmissionPolicies().Create(t.Context(), markedConfigMaps(), write)),
			ignore(registration.MutatingAdmissionPolicyBindings().Create(t.Context(), markedAnywhere(), write)),
		); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the policy mutates", func() error {
			if mutated, err := before.mutates(t.Context()); err != nil || mutated {
				return err
			}
			return errors.New("it does not")
		})
	})
	t.Run("nothing of the next is mutated", func(t *testing.T) {
		c := newClient(t)
		c.isServerOf(t, before)
		if mutated, err := c.mutates(t.Context()); err != nil || mutated {
			t.Errorf("the policy mutates still: %t, %v", mutated, err)
		}
	})
}

// TestAFixtureThatWaitsLeavesItsServer has tests that run one after the other, of which only
// some need the fixture: they have one server.
func TestAFixtureThatWaitsLeavesItsServer(t *testing.T) {
	fixtures := NewFixtures(servers, newClient)
	var before client
	t.Run("one test has a fixture", func(t *testing.T) { before = fixtures.TakeFixture(t) })
	t.Run("the next has a server", func(t *testing.T) { newClient(t).isServerOf(t, before) })
	t.Run("so has another fixture", func(t *testing.T) {
		if again := fixtures.TakeFixture(t); again.config.Host == before.config.Host {
			t.Errorf("the fixture at %s has ended, and is given to a test", before.config.Host)
		} else {
			again.isServerOf(t, before)
		}
	})
}

// isServerOf fails the test if it has not got the server of a test before it.
func (c client) isServerOf(t *testing.T, before client) {
	t.Helper()
	if got, want := c.etcd(), before.etcd(); got != want {
		t.Errorf("it is another server, with its etcd at %s and not at %s: nothing was tested", got, want)
	}
}

func (c client) etcd() string { return c.environment.ControlPlane.Etcd.URL.String() }

// as returns a client of a user.
func (c client) as(name string) kubernetes.Interface {
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = name
	return kubernetes.NewForConfigOrDie(config)
}

// change writes and deletes objects of all sorts.
func (c client) change(t *testing.T) {
	t.Helper()
	ctx, write, remove := t.Context(), metav1.CreateOptions{}, metav1.DeleteOptions{}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/never"}}}
	registration, definitions := c.AdmissionregistrationV1(), c.definitions.ApiextensionsV1().CustomResourceDefinitions()
	for what, err := range map[string]error{
		"a namespace":            ignore(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, write)),
		"what has a finalizer":   ignore(c.CoreV1().ConfigMaps("default").Create(ctx, held, write)),
		"a role of the server":   c.RbacV1().ClusterRoles().Delete(ctx, "system:discovery", remove),
		"a binding":              ignore(c.RbacV1().ClusterRoleBindings().Create(ctx, everybody(), write)),
		"a policy":               ignore(registration.ValidatingAdmissionPolicies().Create(ctx, noSecrets(), write)),
		"where it holds":         ignore(registration.ValidatingAdmissionPolicyBindings().Create(ctx, noSecretsAnywhere(), write)),
		"a definition":           ignore(definitions.Create(ctx, gadget("widgets"), write)),
		"one that was there":     definitions.Delete(ctx, gadgets, remove),
		"a label of kube-public": ignore(c.CoreV1().Namespaces().Patch(ctx, "kube-public", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})),
	} {
		if err != nil {
			t.Errorf("changing %s: %v", what, err)
		}
	}
}

// takesEffect waits until the server knows of the changes, so that it is this that has
// to be undone.
func (c client) takesEffect(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	eventually(t, "the policy refuses", func() error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}
		return mustFail(ignore(c.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})))
	})
	eventually(t, "somebody may read", func() error { return ignore(c.as("somebody").CoreV1().Secrets("").List(ctx, metav1.ListOptions{})) })
	eventually(t, "widgets are served", func() error { return c.serves(ctx, "v1", "widgets") })
	eventually(t, "gadgets are not", func() error { return mustFail(c.serves(ctx, "v1", "gadgets")) })
}

// isAsNew looks for each of the changes, once: nothing may be waited for.
func (c client) isAsNew(t *testing.T) {
	t.Helper()
	ctx, read := t.Context(), metav1.GetOptions{}
	if err := ignore(c.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, metav1.CreateOptions{})); err != nil {
		t.Errorf("the policy refuses still: %v", err)
	}
	if err := ignore(c.as("somebody").CoreV1().Secrets("").List(ctx, metav1.ListOptions{})); !apierrors.IsForbidden(err) {
		t.Errorf("somebody may read still: %v", err)
	}
	for what, err := range map[string]error{
		"the namespace":        ignore(c.CoreV1().Namespaces().Get(ctx, "left", read)),
		"what has a finalizer": ignore(c.CoreV1().ConfigMaps("default").Get(ctx, "held", read)),
		"widgets":              c.serves(ctx, "v1", "widgets"),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.serves(ctx, "v1", "gadgets"); err != nil {
		t.Errorf("gadgets, which were deleted: %v", err)
	}
	if err := ignore(c.RbacV1().ClusterRoles().Get(ctx, "system:discovery", read)); err != nil {
		t.Errorf("the role that was deleted: %v", err)
	}
	if namespace, err := c.CoreV1().Namespaces().Get(ctx, "kube-public", read); err != nil || namespace.Labels["a"] != "" {
		t.Errorf("the label of kube-public: %v, %v", namespace.Labels, err)
	}
}

// mutates reports whether a ConfigMap is mutated when it is created.
func (c client) mutates(ctx context.Context) (bool, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	got, err := c.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err == nil && len(got.Data) > 0, err
}

func everybody() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "somebody"}},
	}
}

func noSecrets() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-secrets"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
		},
	}
}

func noSecretsAnywhere() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-secrets"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "no-secrets", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

func markedConfigMaps() *admissionregistrationv1.MutatingAdmissionPolicy {
	return &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "marked-configmaps"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newConfigMaps()}}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{data: {"marked": "yes"}}`},
			}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}
}

func markedAnywhere() *admissionregistrationv1.MutatingAdmissionPolicyBinding {
	return &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "marked-configmaps"},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "marked-configmaps"},
	}
}

func ignore[T any](_ T, err error) error { return err }

func mustFail(err error) error {
	if err == nil {
		return errors.New("nothing refuses it")
	}
	return nil
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	if waitUntil(t.Context(), func() bool { last = check(); return last == nil }) != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

func waitUntil(ctx context.Context, done func() bool) error {
	return wait.PollUntilContextTimeout(ctx, rightsPause, rightsPatience, true, func(context.Context) (bool, error) { return done(), nil })
}
