// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	slim "github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/bindings"
	"github.com/capstan-io/capstan/internal/hub/propagation/continuous"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/dependencies"
	"github.com/capstan-io/capstan/internal/hub/propagation/detector"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/kept"
	"github.com/capstan-io/capstan/internal/hub/propagation/namespaces"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/policies"
	"github.com/capstan-io/capstan/internal/hub/propagation/rebalancer"
	"github.com/capstan-io/capstan/internal/hub/propagation/rights"
	"github.com/capstan-io/capstan/internal/hub/propagation/rollouts"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/spaces"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/mapper"
	accountrights "github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/kube/served"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// The election of a leader among the replicas.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=propagation-controller-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

// What decides which objects are sent where.
//
// +kubebuilder:rbac:groups=policy.karmada.io,resources=propagationpolicies;clusterpropagationpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=policy.karmada.io,resources=overridepolicies;clusteroverridepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.karmada.io,resources=resourceinterpretercustomizations;resourceinterpreterwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=work.karmada.io,resources=resourcebindings;clusterresourcebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=work.karmada.io,resources=resourcebindings/status;clusterresourcebindings/status,verbs=patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// ComponentName is the name of the component in events and metrics.
	ComponentName = "propagation-controller"
	// LockName is the Lease by which the replicas agree on which one works.
	LockName = "propagation-controller-lock"
	// expansionsMax is how many bindings at a time may have documents changed by their
	// overrides.
	expansionsMax = 2
)

// NewPropagationScheme returns the kinds that the controllers work with.
func NewPropagationScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), schedulingv1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme), workv1.AddToScheme(scheme),
		appsv1alpha1.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme))
}

// NewPropagationCacheOptions keeps of objects what the controllers read; of ClusterRoles, the one
// that it may see.
func NewPropagationCacheOptions() cache.Options {
	common := kept.NewSharedValues()
	return cache.Options{
		DefaultTransform: common.SlimObject,
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.ManagedCluster{}:            {Transform: slim.SlimCluster},
			&workv1.ManifestWork{}:                 {Transform: common.SlimWork},
			&workv1alpha2.ResourceBinding{}:        {Transform: common.SlimBinding},
			&workv1alpha2.ClusterResourceBinding{}: {Transform: common.SlimBinding},
			&rbacv1.ClusterRole{}:                  {Field: fields.OneTermEqualSelector("metadata.name", fleetv1alpha1.PropagationTemplatesRole)},
		},
	}
}

// WatchedPropagationKinds are kinds that a replica that leads has to have in its cache to be
// ready.
func WatchedPropagationKinds() []client.Object {
	return []client.Object{
		&policyv1alpha1.PropagationPolicy{}, &policyv1alpha1.ClusterPropagationPolicy{}, &policyv1alpha1.OverridePolicy{},
		&policyv1alpha1.ClusterOverridePolicy{}, &workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{},
		&workv1.ManifestWork{}, &clusterv1.ManagedCluster{}, &fleetv1alpha1.ClusterConnection{}, &appsv1alpha1.WorkloadRebalancer{},
		&configv1alpha1.ResourceInterpreterCustomization{}, &configv1alpha1.ResourceInterpreterWebhookConfiguration{},
		&fleetv1alpha1.PropagationRollout{}, &fleetv1alpha1.ClusterPropagationRollout{},
	}
}

// SetupOptions are what the controllers are set up with.
type SetupOptions struct {
	// Clock defaults to the real one.
	Clock clock.Clock
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
	// Gates are the feature gates of features.HubPlacement.
	Gates features.GateSet
	// Guard says at which addresses webhooks of interpreters may be called. The zero
	// value forbids those that mean this host or this link.
	Guard dial.AddressGuard
	// SharedWorkBytesMax is how many bytes the works of all namespaces have together that have no
	// limit of their own; 0 is allowance.DefaultShared.
	SharedWorkBytesMax int64
	// WorkWriters is how many programs write works of namespaces, this one included; 0 is 1.
	WorkWriters int64
}

// SetupPropagationControllers adds the controllers to the manager.
func SetupPropagationControllers(ctx context.Context, mgr ctrl.Manager, o SetupOptions) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	held, err := accountrights.ReviewRights(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	hub, err := detectHubScope(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	dropped := events.NewDropCounter()
	recorder := events.NewAllowedRecorder(mgr.GetEventRecorder(ComponentName), held).WithLogger(mgr.GetLogger()).WithDropCounter(dropped)
	allowed := allowance.NewAllowance(o.Clock, cmp.Or(o.SharedWorkBytesMax, allowance.DefaultShared), cmp.Or(o.WorkWriters, 1))
	indexed, err := addFieldIndexes(ctx, mgr, allowed)
	if err != nil {
		return err
	}
	announcer, err := addAnnouncer(mgr, o)
	if err != nil {
		return err
	}
	hubClients, err := newClients(mgr)
	if err != nil {
		return err
	}
	// A policy that spells a kind in another way selects nothing.
	serves := served.NewKindCache(hubClients.discovery, o.Clock)
	kinds := mapper.NewExactMapper(serves.WrapMapper(mgr.GetRESTMapper()))
	signal := newSignals()
	watched := templates.NewTemplates(templates.TemplateOptions{
		Client: hubClients.metadata, Mapper: kinds, Served: serves, Clock: o.Clock, Changed: signal.objectChanged,
	})
	contents := templates.NewContentCache(o.Clock)
	if err := errors.Join(mgr.Add(watched), mgr.Add(contents)); err != nil {
		return fmt.Errorf("adding the watches of templates: %w", err)
	}
	objects := templates.HubObjects{Client: hubClients.objects, Mapper: kinds, Absent: watched.Absent, Contents: contents, Memory: decoding.NewMemory(o.Clock)}
	customs := interpreters.NewKnownInterpreters(mgr.GetClient(), mgr.GetAPIReader(), o.Clock, o.Guard)
	clusters := fleet.NewFleet(o.Clock)
	chain := customs.Chain()
	meter := store.NewWriteMeter(o.Clock)
	own := ownwrites.ReadOwnWritesClient{Client: mgr.GetClient(), Written: ownwrites.NewWrittenBindings(o.Clock), Meter: meter}
	stored := store.NewBindingStore(own, decide.NewDecider(decide.DeciderOptions{Fleet: clusters, Clock: o.Clock, Groups: o.Gates.Enabled(features.WorkloadAffinity)}), clusters, meter)
	works := ownwrites.NewCreatedWorks(o.Clock)
	restless := send.NewRestlessWorks(o.Clock)
	refusals := detector.NewRefusalCounter()
	finds := detector.NewDetectionController(detector.DetectionDeps{
		Client: own, Live: mgr.GetAPIReader(), Templates: watched, Objects: objects, Fleet: clusters, Store: stored, Chain: chain, Interpreters: customs,
		Preempts: o.Gates.Enabled(features.PropagationPolicyPreemption), Prioritizes: o.Gates.Enabled(features.PriorityBasedScheduling),
		Groups: o.Gates.Enabled(features.WorkloadAffinity), Components: o.Gates.Enabled(features.MultiplePodTemplatesScheduling),
		Events: recorder, Refusals: refusals, Hub: hub, Touched: signal.bindingChanged, Changed: signal.objects.Add,
	})
	along := dependencies.DependencyDeps{
		Client: own, Live: mgr.GetAPIReader(), Templates: watched, Objects: objects, Fleet: clusters, Chain: chain, Interpreters: customs,
		Meter: meter, Touched: signal.deliverAgain, Events: recorder, Announce: announcer,
	}
	stages, rolls := buildRolloutStages(mgr, o, clusters, signal, recorder)
	sends := bindings.NewBindingController(bindings.BindingControllerDeps{
		Client: own, Written: own.Written, Works: indexed, Allowance: allowed, Live: mgr.GetAPIReader(), Discovery: hubClients.discovery, Templates: watched, Objects: objects, Fleet: clusters, Store: stored, Chain: chain, Interpreters: customs,
		Created: works, Restless: restless, Events: recorder, Hub: hub, Prioritizes: o.Gates.Enabled(features.PriorityBasedScheduling),
		Announce: announcer, Stages: stages, Clock: o.Clock, Reserved: signal.namespaceChanged(watched),
	})
	follows := namespaces.NewNamespaceController(namespaces.NamespaceDeps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Writer: send.WorkWriter{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Created: works, Restless: restless}, Events: recorder,
		Fleet: clusters, Templates: watched, Allowance: allowed, Clock: o.Clock, Everywhere: o.Gates.Enabled(features.NamespaceSyncAll),
	})
	return errors.Join(
		interpreters.NewInterpreterController(mgr.GetClient(), customs, watched, interpreters.ChangeListeners{Template: signal.objects.Add, Binding: signal.bindingChanged}).SetupWithManager(mgr),
		metrics.RegisterCollectors(o.Metrics, append(newPropagationCollectors(mgr.GetCache(), allowed), refusals, dropped)...), rights.NewTemplateRoleController(mgr.GetClient(), kinds, recorder).SetupWithManager(mgr), addRebalanceControllers(mgr, o, stored, recorder),
		finds.SetupWithManager(mgr, signal.objects), sends.SetupWithManager(mgr, signal.bindings),
		(&dependencies.ReferrerController{DependencyDeps: along}).SetupWithManager(mgr, signal.referrers), dependencies.NewAttachedController(along, signal.referAgain).SetupWithManager(mgr, signal.needed),
		policies.NewPolicyController(policies.PolicyDeps{
			Client: mgr.GetClient(), Mapper: kinds, Templates: watched, Clusters: clusters.Snapshot, Changed: signal.objects.Add, Events: recorder, Clock: o.Clock,
		}).SetupWithManager(mgr), follows.SetupWithManager(mgr), rolls())
}

// addFieldIndexes adds the indexes of the controllers, and returns that of works.
func addFieldIndexes(ctx context.Context, mgr ctrl.Manager, allowed *allowance.Allowance) (bindings.WorkIndex, error) {
	for _, add := range []func(context.Context, client.FieldIndexer) error{
		bindings.IndexOverridePolicies, namespaces.IndexNamespaceWorks, dependencies.IndexReferences, detector.IndexPolicies, policies.IndexClaims,
	} {
		if err := add(ctx, mgr.GetFieldIndexer()); err != nil {
			return bindings.WorkIndex{}, err
		}
	}
	return bindings.IndexWorks(ctx, mgr.GetCache(), allowed)
}

// buildRolloutStages returns what keeps changes from clusters, and what adds the controller of
// rollouts to the manager.
func buildRolloutStages(
	mgr ctrl.Manager, o SetupOptions, clusters *fleet.Fleet, signal signals, recorder *events.Recorder,
) (*staging.Stages, func() error) {
	changed := &inbox.Inbox[reconcile.Request]{}
	stages := staging.NewStages(staging.StageDeps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fleet: clusters, Clock: o.Clock, Turns: turns.NewTurns(expansionsMax, signal.deliverAgain), Touched: signal.deliverAgain,
		Changed: func(rollout staging.RolloutKey) { changed.Add(reconcile.Request{NamespacedName: rollout}) },
	})
	controller := rollouts.NewRolloutController(rollouts.RolloutDeps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fleet: clusters, Stages: stages, Clock: o.Clock, Events: recorder,
	})
	return stages, func() error {
		return errors.Join(mgr.Add(staging.RevisionSweeper{Stages: stages}), controller.SetupWithManager(mgr, changed))
	}
}

// clients are those of what the manager's own client has no kinds for.
type clients struct {
	metadata  metadata.Interface
	objects   dynamic.Interface
	discovery discovery.DiscoveryInterface
}

func newClients(mgr ctrl.Manager) (c clients, err error) {
	if c.metadata, err = metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return clients{}, fmt.Errorf("building the client of metadata: %w", err)
	}
	whole := *mgr.GetHTTPClient()
	whole.Transport = decoding.NewTransport(whole.Transport)
	if c.objects, err = dynamic.NewForConfigAndClient(mgr.GetConfig(), &whole); err != nil {
		return clients{}, fmt.Errorf("building the client of objects: %w", err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return clients{}, fmt.Errorf("building the client of what is served: %w", err)
	}
	return c, nil
}

// addRebalanceControllers adds the controllers that move what is placed already.
func addRebalanceControllers(mgr ctrl.Manager, o SetupOptions, stored store.BindingStore, recorder *events.Recorder) error {
	return errors.Join(
		rebalancer.NewWorkloadRebalancerController(stored.Client, o.Clock).SetupWithManager(mgr),
		continuous.NewRebalanceController(continuous.RebalanceDeps{
			Client: stored.Client, Decider: stored.Decider, Fleet: stored.Fleet, Clock: o.Clock, Events: recorder,
		}).SetupWithManager(mgr))
}

// detectHubScope reports whether the hub is an ordinary cluster: one with nodes.
func detectHubScope(ctx context.Context, reader client.Reader) (scope.Hub, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, nodes, client.Limit(1)); err != nil {
		return scope.Hub{}, fmt.Errorf("looking whether the hub has nodes: %w", err)
	}
	return scope.Hub{Runs: len(nodes.Items) > 0}, nil
}

// addAnnouncer adds to the manager what records Karmada's Events; nil if the gate is
// off.
func addAnnouncer(mgr ctrl.Manager, o SetupOptions) (*announce.Announcer, error) {
	if !o.Gates.Enabled(features.KarmadaEvents) {
		return nil, nil //nolint:nilnil // it is an Announcer that records nothing
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of this host, which reports events: %w", err)
	}
	announcer := announce.NewAnnouncer(announce.AnnouncerOptions{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Clock: o.Clock, Controller: ComponentName, Instance: ComponentName + "-" + host,
	})
	return announcer, errors.Join(
		metrics.RegisterCollectors(o.Metrics, announcer.MetricCollectors()...), mgr.Add(announcer),
		(&spaces.ExecutionSpaceController{Client: mgr.GetClient(), Announce: announcer}).SetupWithManager(mgr))
}
