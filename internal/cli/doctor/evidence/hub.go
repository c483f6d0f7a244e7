// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// OperatorName is the name of the Deployment of the hub's operator.
const OperatorName = "cluster-manager"

// appLabel is the label of pods that names their component.
const appLabel = render.AppLabel

// GatherHub reads what there is to know about a hub as such. The time is used
// if the hub does not say what time it is.
func GatherHub(ctx context.Context, settings *rest.Config, now time.Time) (*HubEvidence, error) {
	settings = rest.CopyConfig(settings)
	clock := &serverClock{}
	clock.trackServerTime(settings)
	h := &HubEvidence{Server: settings.Host, Now: now}
	c, err := newEvidenceClient(settings)
	if err != nil {
		return nil, err
	}
	raw, err := rawClient(settings)
	if err != nil {
		return nil, err
	}
	if h.Version = serverVersion(ctx, raw); h.Version.Found {
		h.Now = clock.latestTime(now)
		h.gatherAll(ctx, c, raw)
	}
	return h, nil
}

// gatherAll reads all but the version.
func (h *HubEvidence) gatherAll(ctx context.Context, c client.Client, raw rest.Interface) {
	runParallel(
		func() { h.KnownKinds, h.MissingKinds, h.KindsErr = missingHubKinds(ctx, raw) },
		func() { h.readInstallation(ctx, c) },
		func() {
			h.Operator = readWorkload(ctx, c, operatorv1.DefaultOperatorNamespace, OperatorName, client.MatchingLabels{appLabel: OperatorName})
		},
		func() {
			h.Requests = readList(ctx, c, &certificatesv1.CertificateSigningRequestList{}, client.HasLabels{clusterv1.LabelClusterName})
		},
		func() {
			h.Tokens = readList(ctx, c, &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem),
				client.MatchingFields{"type": string(api.SecretTypeBootstrapToken)})
		},
		func() { h.Trials = dryRunWebhooks(ctx, c) },
		func() { h.APIServices = apiServices(ctx, c) },
	)
}

func apiServices(ctx context.Context, c client.Client) Reading[*unstructured.UnstructuredList] {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(apiService().GroupVersion().WithKind(apiService().Kind + "List"))
	return readList(ctx, c, list)
}

// apiService is the kind by which an API server knows who serves an API.
func apiService() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}

func rawClient(settings *rest.Config) (rest.Interface, error) {
	settings = rest.CopyConfig(settings)
	settings.Timeout = requestTimeout
	c, err := discovery.NewDiscoveryClientForConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", settings.Host, err)
	}
	return c.RESTClient(), nil
}

func serverVersion(ctx context.Context, c rest.Interface) Reading[string] {
	answer, err := c.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return Reading[string]{Err: err}
	}
	info := &version.Info{}
	if err := json.Unmarshal(answer, info); err != nil {
		return Reading[string]{Err: fmt.Errorf("understand the version of the API server: %w", err)}
	}
	return Reading[string]{Value: info.GitVersion, Found: true}
}

// missingHubKinds finds out which kinds of a hub the API server serves. It asks for the
// groups, which everybody may, and not for the definitions.
func missingHubKinds(ctx context.Context, c rest.Interface) (known int, missing []string, err error) {
	definitions, err := config.HubCRDs()
	if err != nil {
		return 0, nil, err
	}
	served := map[schema.GroupVersion]map[string]bool{}
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			group := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}
			if served[group] == nil {
				if served[group], err = servedResources(ctx, c, group); err != nil {
					return 0, nil, err
				}
			}
			if v.Served && !served[group][d.Spec.Names.Plural] {
				missing = append(missing, d.Spec.Names.Kind)
			} else {
				known++
			}
		}
	}
	slices.Sort(missing)
	return known, slices.Compact(missing), nil
}

// servedResources returns the resources of a group, by plural name; none if the API
// server does not know the group.
func servedResources(ctx context.Context, c rest.Interface, group schema.GroupVersion) (map[string]bool, error) {
	list := &metav1.APIResourceList{}
	known := map[string]bool{}
	answer, err := c.Get().AbsPath("/apis", group.Group, group.Version).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask which kinds of %s there are: %w", group, err)
	}
	if err := json.Unmarshal(answer, list); err != nil {
		return nil, fmt.Errorf("understand which kinds of %s there are: %w", group, err)
	}
	for _, r := range list.APIResources {
		known[r.Name] = true
	}
	return known, nil
}

// readInstallation reads what the operator has installed.
func (h *HubEvidence) readInstallation(ctx context.Context, c client.Client) {
	h.Managers = readList(ctx, c, &operatorv1.ClusterManagerList{})
	parts := manifests.Hub{Name: OperatorName, OperatorNamespace: operatorv1.DefaultOperatorNamespace}
	if h.Managers.Found && len(h.Managers.Value.Items) > 0 {
		parts.Name = h.Managers.Value.Items[0].Name
		parts.Spec = h.Managers.Value.Items[0].Spec
	}
	components := manifests.HubComponents(parts)
	h.Components = make([]Workload, len(components))
	var secrets []*corev1.Secret
	var services []string
	tasks := []func(){
		func() {
			h.Mutating = readList(ctx, c, &admissionv1.MutatingWebhookConfigurationList{}, client.MatchingLabels(parts.OwnerLabels()))
		},
		func() {
			h.Validating = readList(ctx, c, &admissionv1.ValidatingWebhookConfigurationList{}, client.MatchingLabels(parts.OwnerLabels()))
		},
		func() { h.Bootstrap = findObjects(ctx, c, manifests.BootstrapAccess(parts)[1:3]) },
	}
	for i, component := range components {
		w := component.Workload
		tasks = append(tasks, func() {
			h.Components[i] = readWorkload(ctx, c, w.Namespace, w.Name, client.MatchingLabels{appLabel: w.App})
		})
		if component.Webhook != nil {
			services = append(services, component.Webhook.Service)
			secrets = append(secrets, &corev1.Secret{ObjectMeta: objectMetaFor(w.Namespace, component.Webhook.Secret)})
		}
	}
	serving := make([]Reading[*corev1.Secret], len(secrets))
	for i := range secrets {
		tasks = append(tasks, func() { serving[i] = readObject(ctx, c, secrets[i]) })
	}
	runParallel(tasks...)
	h.Serving = map[string]Reading[*corev1.Secret]{}
	for i, service := range services {
		h.Serving[service] = serving[i]
	}
}

// dryRunWebhooks creates what the webhooks look at, as dry runs: this shows whether the
// API server reaches them.
func dryRunWebhooks(ctx context.Context, c client.Client) []Trial {
	const prefix = "capstan-doctor-"
	manifest := workv1.Manifest{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"capstan-doctor","namespace":"default"}}`),
	}}
	all := []struct {
		kind   string
		object client.Object
	}{
		{"ManagedCluster", &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}},
		{"ManifestWork", &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Namespace: metav1.NamespaceDefault},
			Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{manifest}}},
		}},
	}
	tried := make([]Trial, len(all))
	var tasks []func()
	for i, t := range all {
		tasks = append(tasks, func() { tried[i] = Trial{Kind: t.kind, Err: c.Create(ctx, t.object, client.DryRunAll)} })
	}
	runParallel(tasks...)
	return tried
}
