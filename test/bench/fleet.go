// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
)

const (
	hubName    = "hub"
	memberName = "member"
	// bootstrapUser is whose join requests the hub approves and accepts by itself.
	bootstrapUser = "bench-bootstrap"
	// emptyMinutes is how long the hub is watched before anything of ours is there.
	emptyMinutes = 1
)

// fleet is a hub, the programs of the hub, a member, and agents.
type fleet struct {
	root, dir string

	hub       kubernetes.Interface
	hubClient client.WithWatch
	hubConfig *rest.Config
	member    kubernetes.Interface
	// empty is what the hub is asked for in a minute without Capstan. It is
	// counted if countEmpty is set.
	empty      requests
	countEmpty bool

	hubProcesses []*process
	agents       []*process
}

func (f *fleet) lab(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(f.root, "test/lab/bin/lab"), append([]string{"--dir", filepath.Join(f.dir, "lab")}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("lab %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

func (f *fleet) path(elements ...string) string {
	return filepath.Join(append([]string{f.dir}, elements...)...)
}

func (f *fleet) up(ctx context.Context) error {
	if err := os.MkdirAll(f.path("logs"), 0o700); err != nil {
		return err
	}
	if _, err := f.lab(ctx, "up", "--nodeless", "--name", hubName, "--name", memberName); err != nil {
		return err
	}
	if err := f.connect(ctx); err != nil {
		return err
	}
	if f.countEmpty {
		if err := f.watchEmpty(ctx); err != nil {
			return err
		}
	}
	if err := f.install(ctx); err != nil {
		return err
	}
	return f.startHub(ctx)
}

// watchEmpty counts what the hub is asked for before there is anything of ours.
func (f *fleet) watchEmpty(ctx context.Context) error {
	before, err := countRequests(ctx, f.hub)
	if err != nil {
		return err
	}
	if err := pause(ctx, emptyMinutes*time.Minute); err != nil {
		return err
	}
	after, err := countRequests(ctx, f.hub)
	if err != nil {
		return err
	}
	f.empty = scaled(after.minus(before), 1.0/emptyMinutes)
	return nil
}

// connect makes clients, and a kubeconfig of its own for each cluster.
func (f *fleet) connect(ctx context.Context) error {
	for _, name := range []string{hubName, memberName} {
		text, err := f.lab(ctx, "kubeconfig", name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.path(name+".kubeconfig"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	hubConfig, err := unlimited(f.path(hubName + ".kubeconfig"))
	if err != nil {
		return err
	}
	memberConfig, err := unlimited(f.path(memberName + ".kubeconfig"))
	if err != nil {
		return err
	}
	f.hubConfig = hubConfig
	if f.hub, err = kubernetes.NewForConfig(hubConfig); err != nil {
		return err
	}
	if f.member, err = kubernetes.NewForConfig(memberConfig); err != nil {
		return err
	}
	f.hubClient, err = client.NewWithWatch(hubConfig, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	memberClient, err := client.New(memberConfig, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return errors.Join(installCRDs(ctx, f.hubClient, config.HubCRDs), installCRDs(ctx, memberClient, config.SpokeCRDs))
}

func unlimited(kubeconfig string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = -1, 0
	return c, nil
}

func installCRDs(ctx context.Context, c client.Client, definitions func() ([]*apiextensionsv1.CustomResourceDefinition, error)) error {
	crds, err := definitions()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := c.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, crd := range crds {
		if err := poll(ctx, func(ctx context.Context) (bool, error) {
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return false, err
			}
			for _, condition := range crd.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			return fmt.Errorf("waiting for CRD %s: %w", crd.Name, err)
		}
	}
	return nil
}

func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	for {
		ok, err := done(ctx)
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// install puts into the hub what the operator would: the namespace, the
// webhooks, and the role of the bootstrap identity.
func (f *fleet) install(ctx context.Context) error {
	server, err := url.Parse(f.hubConfig.Host)
	if err != nil {
		return err
	}
	// The lab's clusters reach this machine at the first address of their network.
	address := net.ParseIP(server.Hostname()).To4()
	if address == nil {
		return fmt.Errorf("the hub's address %q is no IPv4 address", server.Hostname())
	}
	host := net.IPv4(address[0], address[1], address[2], 1)
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.String(), []net.IP{host}, nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.path("certs"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(f.path("certs", "tls.crt"), certificate, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(f.path("certs", "tls.key"), key, 0o600); err != nil {
		return err
	}
	for _, object := range append(webhooks(host, certificate), bootstrapRole()...) {
		if err := f.hubClient.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// The ports of the programs of the hub on this machine.
const (
	registrationWebhookPort = 29443
	workWebhookPort         = 29444
	firstHealthPort         = 29500
)

// startHub starts the programs of the hub and waits until the webhooks answer.
func (f *fleet) startHub(ctx context.Context) error {
	kubeconfig := "--kubeconfig=" + f.path(hubName+".kubeconfig")
	for i, program := range [][]string{
		{
			"registration-controller", "--disable-leader-election",
			"--feature-gates=ManagedClusterAutoApproval=true", "--cluster-auto-approval-users=" + bootstrapUser,
			"--auto-approved-csr-users=" + bootstrapUser,
		},
		{"registration-webhook", "--port=" + strconv.Itoa(registrationWebhookPort), "--cert-dir=" + f.path("certs")},
		{"work-webhook", "--port=" + strconv.Itoa(workWebhookPort), "--cert-dir=" + f.path("certs")},
	} {
		args := append(slices.Clone(program), kubeconfig, "--metrics-port=0", "--health-probe-port="+strconv.Itoa(firstHealthPort+i))
		p, err := start(ctx, f.path("logs"), program[0], filepath.Join(f.root, "bin/capstan-manager"), args)
		if err != nil {
			return err
		}
		f.hubProcesses = append(f.hubProcesses, p)
	}
	// A cluster that is created and deleted again shows that webhooks and
	// controllers work.
	probe := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last error
	if err := poll(limit, func(ctx context.Context) (bool, error) {
		last = f.hubClient.Create(ctx, probe.DeepCopy())
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("the webhooks do not answer (logs in %s): %w", f.path("logs"), errors.Join(err, last))
	}
	if err := f.hubClient.Delete(limit, probe); err != nil {
		return err
	}
	return poll(limit, func(ctx context.Context) (bool, error) {
		err := f.hubClient.Get(ctx, client.ObjectKeyFromObject(probe), probe)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// prepareMembers makes the namespaces of the agents and the bootstrap kubeconfig.
func (f *fleet) prepareMembers(ctx context.Context, n int) error {
	bootstrap, err := clientcmd.LoadFromFile(f.path(hubName + ".kubeconfig"))
	if err != nil {
		return err
	}
	// The administrator's credential, limited to the bootstrap user.
	user := bootstrap.AuthInfos[bootstrap.Contexts[bootstrap.CurrentContext].AuthInfo]
	user.Impersonate = bootstrapUser
	text, err := clientcmd.Write(*bootstrap)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path("bootstrap.kubeconfig"), text, 0o600); err != nil {
		return err
	}
	for i := range n {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace(i)}}
		if _, err := f.member.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: operatorv1.BootstrapHubKubeConfigSecret, Namespace: agentNamespace(i)},
			Data:       map[string][]byte{"kubeconfig": text},
		}
		if _, err := f.member.CoreV1().Secrets(agentNamespace(i)).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func agentNamespace(i int) string { return fmt.Sprintf("agent-%d", i) }

// startAgent starts one Singleton agent.
func (f *fleet) startAgent(ctx context.Context, i int) (*process, error) {
	return start(ctx, f.path("logs"), agentNamespace(i), filepath.Join(f.root, "bin/capstan-manager"), []string{
		"agent", "--disable-leader-election", "--metrics-port=0",
		"--kubeconfig=" + f.path(memberName+".kubeconfig"),
		"--agent-namespace=" + agentNamespace(i),
		"--spoke-cluster-name=" + fmt.Sprintf("cluster-%d", i),
		"--agent-id=" + fmt.Sprintf("agent-%d", i),
		"--health-probe-port=0",
	})
}

// down stops and removes everything. The logs stay if something went wrong.
func (f *fleet) down(ctx context.Context, good bool) error {
	for _, p := range append(f.agents, f.hubProcesses...) {
		p.stop()
	}
	_, err := f.lab(ctx, "down")
	if good {
		err = errors.Join(err, os.RemoveAll(f.dir))
	}
	return err
}

func bootstrapRole() []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: bootstrapUser}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: bootstrapUser},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bootstrapUser},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: bootstrapUser}},
		},
	}
}

// webhooks are those of the operator, with addresses on this machine.
func webhooks(host net.IP, ca []byte) []client.Object {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	address := func(port int, path string) admissionregistrationv1.WebhookClientConfig {
		target := fmt.Sprintf("https://%s:%d%s", host, port, path)
		return admissionregistrationv1.WebhookClientConfig{URL: &target, CABundle: ca}
	}
	rule := func(group, version, resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		}}
	}
	clusters := rule("cluster.open-cluster-management.io", "v1", "managedclusters", admissionregistrationv1.Create, admissionregistrationv1.Update)
	works := rule("work.open-cluster-management.io", "v1", "manifestworks", admissionregistrationv1.Create, admissionregistrationv1.Update)
	mutating := func(name string, config admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{Name: name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}}
	}
	validating := func(name string, config admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{Name: name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}}
	}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				mutating("cluster.bench.capstan.io", address(registrationWebhookPort, "/mutate-cluster-open-cluster-management-io-v1-managedcluster"), clusters),
				mutating("work.bench.capstan.io", address(workWebhookPort, "/mutate-work-open-cluster-management-io-v1-manifestwork"),
					rule("work.open-cluster-management.io", "v1", "manifestworks", admissionregistrationv1.Create)),
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				validating("cluster.bench.capstan.io", address(registrationWebhookPort, "/validate-cluster-open-cluster-management-io-v1-managedcluster"), clusters),
				validating("work.bench.capstan.io", address(workWebhookPort, "/validate-work-open-cluster-management-io-v1-manifestwork"), works),
			},
		},
	}
}
