// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// tierLabel and goldTier mark the clusters of a few placements.
	tierLabel, goldTier = "tier", "gold"
	// controllerWorkers is how many placements the controller looks at at a time,
	// and so the probe.
	controllerWorkers = 8
	// placementMetricsPort is on this machine.
	placementMetricsPort = 29510
)

// placementHub is a hub with clusters that nobody runs, and placements.
type placementHub struct {
	fleet    *fleet.Fleet
	client   client.WithWatch
	clusters int
	// placed says that the placements are there, and namespaces that those of the
	// clusters are.
	placed, namespaces bool
	// metrics reads those of the controller.
	metrics *http.Client
	token   string
}

// newPlacementHub makes namespaces with all clusters to choose from, and lets
// the driver read the controller's metrics.
func newPlacementHub(ctx context.Context, f *fleet.Fleet) (*placementHub, error) {
	h := &placementHub{fleet: f, client: f.Hub.Client, metrics: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it is on this machine
	}}}
	if err := makeNamespaces(ctx, f.Hub); err != nil {
		return nil, err
	}
	account := metav1.ObjectMeta{Namespace: probeNamespace, Name: "bench"}
	for _, object := range []client.Object{
		&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
			ClusterSelector: clusterv1beta2.ManagedClusterSelector{
				SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{},
			},
		}},
		&clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: worksNamespace, Name: "bench"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "bench"},
		},
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		},
	} {
		if err := h.client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %T %q: %w", object, object.GetName(), err)
		}
	}
	token, err := f.Hub.Kubernetes.CoreV1().ServiceAccounts(account.Namespace).
		CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("getting a token for metrics: %w", err)
	}
	h.token = token.Status.Token
	return h, nil
}

// startController starts the controller, which Down stops.
func (h *placementHub) startController(ctx context.Context) (*fleet.Process, error) {
	p, err := h.fleet.Start(ctx, "placement-controller", "placement-controller", "--disable-leader-election", "--health-probe-port=0",
		fmt.Sprintf("--metrics-port=%d", placementMetricsPort), "--kubeconfig="+h.fleet.Path("placement-controller.kubeconfig"))
	if err != nil {
		return nil, err
	}
	h.fleet.Agents = append(h.fleet.Agents, p)
	return p, nil
}

var evaluationsTotal = regexp.MustCompile(`(?m)^capstan_placement_evaluations_total (\S+)$`)

// evaluations is how many placements the controller has evaluated.
func (h *placementHub) evaluations(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", placementMetricsPort), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+h.token)
	response, err := h.metrics.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the controller: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("reading the metrics of the controller: %s: %w", response.Status, err)
	}
	match := evaluationsTotal.FindSubmatch(text)
	if match == nil {
		return 0, errors.New("the metrics of the controller have no evaluations")
	}
	return strconv.ParseFloat(string(match[1]), 64)
}

func placedName(i int) string { return fmt.Sprintf("cluster-%05d", i) }

// grow adds clusters until there are n, each with the status of a real one.
func (h *placementHub) grow(ctx context.Context, n int) error {
	have := h.clusters
	h.clusters = n
	return parallel(ctx, n-have, func(ctx context.Context, k int) error {
		i := have + k
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: placedName(i), Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "zone": fmt.Sprintf("zone-%d", i%10), "vendor": "OpenShift"},
		}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
		if i < goldClusters {
			cluster.Labels[tierLabel] = goldTier
		}
		if err := h.client.Create(ctx, cluster); err != nil {
			return fmt.Errorf("creating ManagedCluster %q: %w", cluster.Name, err)
		}
		before := cluster.DeepCopy()
		cluster.Status = statusOf(i)
		if err := h.client.Status().Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of ManagedCluster %q: %w", cluster.Name, err)
		}
		return nil
	})
}

// statusOf is what an agent of a healthy cluster reports.
func statusOf(i int) clusterv1.ManagedClusterStatus {
	resources := clusterv1.ResourceList{
		clusterv1.ResourceCPU: *resource.NewQuantity(int64(8+i%64), resource.DecimalSI), clusterv1.ResourceMemory: resource.MustParse("64Gi"),
	}
	status := clusterv1.ManagedClusterStatus{
		Version: clusterv1.ManagedClusterVersion{Kubernetes: "v1.36.3"}, Capacity: resources, Allocatable: resources,
	}
	for _, kind := range []string{
		clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable,
	} {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Bench", Message: "As of a cluster that is well", LastTransitionTime: metav1.Now(),
		})
	}
	for _, claim := range []string{"id.k8s.io", "kubeversion.open-cluster-management.io", "platform.open-cluster-management.io", "product.open-cluster-management.io", "region.open-cluster-management.io"} {
		status.ClusterClaims = append(status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: claim, Value: fmt.Sprintf("value-%d", i)})
	}
	return status
}

// beat changes the status of one cluster again and again, in nothing that a
// placement asks about.
func (h *placementHub) beat(ctx context.Context, times int) error {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: placedName(h.clusters / 2)}}
	if err := h.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return fmt.Errorf("reading ManagedCluster %q: %w", cluster.Name, err)
	}
	for n := range times {
		before := cluster.DeepCopy()
		cluster.Status.Conditions[2].Message = fmt.Sprintf("Seen %d times", n+1)
		if err := h.client.Status().Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of ManagedCluster %q: %w", cluster.Name, err)
		}
	}
	return nil
}

// placement returns one that wants n of all clusters, nil for all. It tolerates
// the taint of clusters whose agent has not come.
func placement(namespace, name string, n *int32) *clusterv1beta1.Placement {
	return &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1beta1.PlacementSpec{
			NumberOfClusters: n, Tolerations: []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}},
		},
	}
}

func isGold(i int) bool { return i < goldPlacements }

// place creates the many placements, a few of which want clusters with a label.
func (h *placementHub) place(ctx context.Context) error {
	h.placed = true
	return parallel(ctx, placementCount, func(ctx context.Context, i int) error {
		p := placement(worksNamespace, fmt.Sprintf("app-%04d", i), new(int32(pick)))
		if isGold(i) {
			p.Labels = map[string]string{tierLabel: goldTier}
			p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{tierLabel: goldTier}},
			}}}
		}
		if err := h.client.Create(ctx, p); err != nil {
			return fmt.Errorf("creating Placement %q: %w", p.Name, err)
		}
		return nil
	})
}

// picks is a watch of placements that waits for all of them.
type picks struct {
	*stream[*clusterv1beta1.Placement]
	all <-chan sight
}

// awaitPicks waits until n placements say for how many clusters they have
// decided, and that these are as many as wanted.
func (h *placementHub) awaitPicks(ctx context.Context, n int, wanted func(int32) bool, options ...client.ListOption) (picks, error) {
	s, err := open[*clusterv1beta1.Placement](ctx, h.client, &clusterv1beta1.PlacementList{}, append(options, client.InNamespace(worksNamespace))...)
	if err != nil {
		return picks{}, err
	}
	done := map[string]bool{}
	return picks{s, s.later(ctx, func(_ watch.EventType, p *clusterv1beta1.Placement) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
		if c != nil && c.ObservedGeneration == p.Generation && wanted(p.Status.NumberOfSelectedClusters) {
			done[p.Name] = true
		}
		return len(done) == n
	})}, nil
}

// setGold gives the label to a cluster, or takes it, and returns how long it is
// from the answer until the placements that want it have the number of clusters.
func (h *placementHub) setGold(ctx context.Context, gold bool, clusters int32) (time.Duration, error) {
	seen, err := h.awaitPicks(ctx, goldPlacements, func(n int32) bool { return n == clusters }, client.MatchingLabels{tierLabel: goldTier})
	if err != nil {
		return 0, err
	}
	defer seen.close()
	value := "null"
	if gold {
		value = strconv.Quote(goldTier)
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: placedName(0)}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, tierLabel, value)
	if err := h.client.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return 0, fmt.Errorf("labelling ManagedCluster %q: %w", cluster.Name, err)
	}
	answered := time.Now()
	last := <-seen.all
	return last.at.Sub(answered), last.err
}

// decideAll creates a placement that chooses all clusters, and returns how long
// it is from the answer until its decisions list them.
func (h *placementHub) decideAll(ctx context.Context) (time.Duration, error) {
	seen, err := open[*clusterv1beta1.PlacementDecision](ctx, h.client, &clusterv1beta1.PlacementDecisionList{}, client.InNamespace(worksNamespace))
	if err != nil {
		return 0, err
	}
	defer seen.close()
	listed := map[string]bool{}
	all := seen.later(ctx, func(_ watch.EventType, d *clusterv1beta1.PlacementDecision) bool {
		for _, decision := range d.Status.Decisions {
			listed[decision.ClusterName] = true
		}
		return len(listed) == h.clusters
	})
	p := placement(worksNamespace, "all", nil)
	if err := h.client.Create(ctx, p); err != nil {
		return 0, fmt.Errorf("creating Placement %q: %w", p.Name, err)
	}
	answered := time.Now()
	last := <-all
	return last.at.Sub(answered), last.err
}

// clear deletes all placements of a namespace and their decisions.
func (h *placementHub) clear(ctx context.Context, namespace string) error {
	if namespace == worksNamespace {
		h.placed = false
	}
	for _, list := range []client.ObjectList{&clusterv1beta1.PlacementList{}, &clusterv1beta1.PlacementDecisionList{}} {
		if err := h.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("reading %T: %w", list, err)
		}
		err = parallel(ctx, len(objects), func(ctx context.Context, i int) error {
			object, ok := objects[i].(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", objects[i])
			}
			return client.IgnoreNotFound(h.client.Delete(ctx, object))
		})
		if err != nil {
			return fmt.Errorf("deleting %T: %w", list, err)
		}
	}
	return nil
}
