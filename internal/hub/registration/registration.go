// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/abandoned"
	clocksync "github.com/capstan-io/capstan/internal/hub/registration/managedcluster/clock"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/gc"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lease"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lifecycle"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/namespaces"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/projection"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/taint"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/binding"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/builtin"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/members"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// Who waits for the election of a leader looks whether the leader's pod is there.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=registration-controller-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

// ComponentName is the name of the component in events and metrics.
const ComponentName = "registration-controller"

// reviewEvery is how often the hub looks whether it may still do the same.
const reviewEvery = 30 * time.Second

// SetupOptions are what an administrator chooses.
type SetupOptions struct {
	// Gates are the feature gates of features.HubRegistration.
	Gates features.GateSet
	// Mirror has ClusterConnections mirror their ManagedClusters, for the Cluster API
	// (feature gate AggregatedAPI).
	Mirror bool
	// CountPods has agents count what pods request, for replicas that are placed by
	// what clusters have left.
	CountPods bool
	// Customizations lets agents read the ResourceInterpreterCustomizations of the hub.
	Customizations bool
	// AgentLabels are the labels that agents may change whose ClusterConnection does not
	// say which.
	AgentLabels agentlabels.AllowedKeys
	// AutoApprovedUsers are the exact names of the users whose first certificate
	// requests are approved, and whose clusters are accepted, without an
	// administrator. They count only with the gate ManagedClusterAutoApproval.
	AutoApprovedUsers []string
	// MaxAutomatic is how many clusters are accepted without an administrator because
	// of one bootstrap token; 0 is no limit.
	MaxAutomatic int
	// CleanupResources are the kinds, as group/version/resource and in this order,
	// that are deleted with a cluster (gate ResourceCleanup). Defaults to add-ons
	// and works.
	CleanupResources []string
	// OwnNamespace is that of this component.
	OwnNamespace string
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// NewRegistrationScheme returns the kinds that the controllers work with.
func NewRegistrationScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme),
		fleetv1alpha1.AddToScheme(scheme),
	)
	return scheme, err
}

// NewRegistrationCacheOptions keeps in memory what belongs to clusters and nothing else of
// the hub, without managed fields, of heartbeats when they were, and of works only that
// they exist.
func NewRegistrationCacheOptions() (cache.Options, error) {
	ofClusters, err := labels.NewRequirement(clusterv1.LabelClusterName, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting by label %q: %w", clusterv1.LabelClusterName, err)
	}
	labelled := cache.ByObject{Label: labels.NewSelector().Add(*ofClusters)}
	csrs := labelled
	csrs.Field = fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName)
	csrs.Transform = approval.SlimRequest
	// By name, as the rights to them are.
	heartbeats := labelled
	heartbeats.Field = fields.OneTermEqualSelector(metav1.ObjectNameField, clusterv1.LeaseName)
	heartbeats.Transform = fleet.SlimLease
	works := &metav1.PartialObjectMetadata{}
	works.SetGroupVersionKind(schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"})
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:                         labelled,
			&coordinationv1.Lease{}:                     heartbeats,
			&rbacv1.ClusterRole{}:                       labelled,
			&rbacv1.ClusterRoleBinding{}:                labelled,
			&rbacv1.RoleBinding{}:                       labelled,
			&certificatesv1.CertificateSigningRequest{}: csrs,
			&fleetv1alpha1.ClusterConnection{}:          {Transform: fleet.SlimMirror},
			works:                                       {Transform: slimToExistence},
		},
	}, nil
}

// WatchedRegistrationKinds are kinds that a replica that leads has to have in its cache to be
// ready: those that the controllers are for.
func WatchedRegistrationKinds() []client.Object {
	return []client.Object{
		&clusterv1.ManagedCluster{}, &coordinationv1.Lease{}, &certificatesv1.CertificateSigningRequest{},
		&clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetBinding{},
	}
}

// slimToExistence keeps of a work what it takes to see that it goes, or is gone.
func slimToExistence(obj any) (any, error) {
	if work, ok := obj.(*metav1.PartialObjectMetadata); ok {
		work.ObjectMeta = metav1.ObjectMeta{
			Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion,
			DeletionTimestamp: work.DeletionTimestamp,
		}
	}
	return obj, nil
}

// SetupRegistrationControllers adds the controllers to the manager.
func SetupRegistrationControllers(ctx context.Context, mgr ctrl.Manager, o SetupOptions) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := mgr.GetClient()
	held, err := reviewHubRights(ctx, mgr)
	if err != nil {
		return err
	}
	dropped := events.NewDropCounter()
	recorder := events.NewAllowedRecorder(mgr.GetEventRecorder(ComponentName), held).WithLogger(mgr.GetLogger()).WithDropCounter(dropped)
	mirrored := o.Mirror && held.AllowsRules(projection.RequiredRights()...)
	life := lifecycle.ClusterLifecycleDeps{
		Client: c, Live: mgr.GetAPIReader(), Clock: o.Clock, Events: recorder, OwnNamespace: o.OwnNamespace, Rights: held,
		Unique: o.Gates.Enabled(features.UniqueClusterIdentity), Mirrored: mirrored, CountPods: o.CountPods, Customizations: o.Customizations,
		AgentLabels: o.AgentLabels,
	}
	if o.Gates.Enabled(features.ResourceCleanup) {
		resources := o.CleanupResources
		if len(resources) == 0 {
			resources = gc.DefaultKinds()
		}
		kinds, err := gc.ParseKinds(resources)
		if err != nil {
			return err
		}
		life.Collector = gc.NewNamespaceCollector(c, mgr.GetAPIReader(), o.Clock, kinds)
	}
	approvals := approval.NewCSRApprovalController(approval.CSRApprovalDeps{Client: c, Live: mgr.GetAPIReader(), Clock: o.Clock, Events: recorder, Automatic: automaticApproval(o)})
	if err := metrics.RegisterCollectors(o.Metrics, append(newClusterCollectors(c, o.Clock, mgr.Elected()), approvals.MetricCollector(), dropped)...); err != nil {
		return err
	}
	if mirrored {
		clusters := projection.NewClusterProjectionController(projection.ClusterProjectionDeps{Client: c, Live: mgr.GetAPIReader(), Events: recorder})
		if err := errors.Join(metrics.RegisterCollectors(o.Metrics, clusters.MetricCollector()), clusters.SetupWithManager(mgr)); err != nil {
			return err
		}
	}
	if held.AllowsRules(abandoned.RequiredRights()) {
		if err := abandoned.NewOrphanedWorkController(c, mgr.GetAPIReader(), held).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return errors.Join(
		lifecycle.NewClusterLifecycleController(life).SetupWithManager(ctx, mgr),
		taint.NewClusterTaintController(c).SetupWithManager(mgr),
		lease.NewHeartbeatController(c, o.Clock, recorder).SetupWithManager(mgr),
		clocksync.NewClusterClockController(c, o.Clock).SetupWithManager(mgr),
		namespaces.NewManagedNamespaceController(c).SetupWithManager(mgr),
		approvals.SetupWithManager(ctx, mgr),
		members.NewClusterSetMemberController(c).SetupWithManager(mgr),
		builtin.NewPredefinedSetController(c, o.Gates.Enabled(features.DefaultClusterSet)).SetupWithManager(mgr),
		binding.NewClusterSetBindingController(c).SetupWithManager(ctx, mgr),
	)
}

// reviewHubRights finds out what the hub may do, which is less than usual if its operator
// may not grant it more, and ends the program when that changes: what is watched
// is chosen when it starts.
func reviewHubRights(ctx context.Context, mgr ctrl.Manager) (rights.Rights, error) {
	wanted, _, err := config.Rules(config.RegistrationController)
	if err != nil {
		return rights.Rights{}, fmt.Errorf("reading what the hub needs: %w", err)
	}
	held, err := rights.ReviewRights(ctx, mgr.GetClient())
	if err != nil {
		return rights.Rights{}, err
	}
	lacked := held.MissingRules(wanted...)
	if len(lacked) > 0 {
		mgr.GetLogger().Info("This account may not do all that the hub can do; what needs the rest is off", "lacks", rights.DescribeRules(lacked))
	}
	return held, mgr.Add(&rights.ChangeWatcher{Client: mgr.GetClient(), Wanted: wanted, Lacked: lacked, Every: reviewEvery})
}

// automaticApproval returns the users to trust, nobody unless the gate is on, and how many
// clusters a token may have accepted.
func automaticApproval(o SetupOptions) policy.AutoApproval {
	if !o.Gates.Enabled(features.ManagedClusterAutoApproval) {
		return policy.AutoApproval{TokenClustersMax: o.MaxAutomatic}
	}
	users := slices.DeleteFunc(slices.Clone(o.AutoApprovedUsers), func(user string) bool { return user == "" })
	return policy.AutoApproval{Users: users, TokenClustersMax: o.MaxAutomatic}
}
