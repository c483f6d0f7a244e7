// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

const (
	// unknown is what the hub does not know.
	unknown  = "-"
	adopted  = "Y"
	somebody = "N"
)

// taken is in the message of an agent about an object that is somebody else's.
const taken = "already exists in the cluster"

const (
	// depthMax is how deep a status is: what agents report of an object at most.
	depthMax = 128
	// unreadable is the reason of a row whose status is left out.
	unreadable = "The status is omitted, because what the cluster reports is not JSON, or is nested too deeply."
)

// objectRow is an object on the hub or in a cluster, in the form that scripts read.
type objectRow struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Cluster is that of the object, or <hub>.
	Cluster string `json:"cluster"`
	// Adoption is Y, N or -.
	Adoption string          `json:"adoption"`
	Status   json.RawMessage `json:"status,omitempty"`
	Health   string          `json:"health,omitempty"`
	Created  *metav1.Time    `json:"created,omitempty"`
	// Reason says why the object is not in the cluster as it should be.
	Reason string `json:"reason,omitempty"`
}

func (r objectRow) briefStatus() string { return health.BriefStatus(r.Status) }

// rowOrder has the row of the hub first.
func (r objectRow) rowOrder() int {
	if r.Cluster == onHub {
		return 0
	}
	return 1
}

// objectReading is what is read for a list.
type objectReading struct {
	*objectsCommand

	client client.Client
	rows   []objectRow
	// selected are the names of objects of the hub that have the labels.
	selected map[client.ObjectKey]bool
	unread   []string
}

// readRows reads the objects of the hub, and what it knows of those in clusters.
func (r *objectReading) readRows(ctx context.Context) error {
	if r.scope != scopeMembers || !r.labels.Empty() {
		if err := r.readHubObjects(ctx); err != nil {
			return err
		}
	}
	if r.scope == scopeHub {
		return nil
	}
	if r.scope == scopeMembers {
		r.rows = nil
	}
	for _, step := range []func(context.Context) error{r.checkClustersExist, r.readBindings, r.readWorks} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readHubObjects reads the objects of the hub.
func (r *objectReading) readHubObjects(ctx context.Context) error {
	r.selected = map[client.ObjectKey]bool{}
	add := func(object *unstructured.Unstructured) {
		created := object.GetCreationTimestamp()
		status, err := json.Marshal(object.Object["status"])
		if err != nil || object.Object["status"] == nil {
			status = nil
		}
		r.selected[client.ObjectKeyFromObject(object)] = true
		r.rows = append(r.rows, objectRow{Namespace: object.GetNamespace(), Name: object.GetName(), Cluster: onHub, Adoption: unknown, Status: status, Created: &created})
	}
	for _, name := range r.names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(r.mapping.GroupVersionKind)
		err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			add(object)
		}
	}
	if len(r.names) > 0 {
		return nil
	}
	return hub.VisitObjects(ctx, r.client, r.mapping.GroupVersionKind, add, client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: r.labels})
}

// checkClustersExist finds out whether there are the clusters that are named.
func (r *objectReading) checkClustersExist(ctx context.Context) error {
	for _, name := range r.clusters {
		err := r.client.Get(ctx, client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{})
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			return exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist.")
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// isWanted reports whether an object of a cluster is asked for.
func (r *objectReading) isWanted(kind schema.GroupKind, namespace, name, cluster string) bool {
	return kind == r.mapping.GroupVersionKind.GroupKind() && (r.namespace == "" || r.namespace == namespace) &&
		(len(r.names) == 0 || slices.Contains(r.names, name)) && (len(r.clusters) == 0 || slices.Contains(r.clusters, cluster))
}

// recordForbidden notes that the user may not read something. A hub without policies has
// no bindings. Other errors are returned.
func (r *objectReading) recordForbidden(err error, what, consequence string) error {
	switch {
	case apierrors.IsForbidden(err):
		r.unread = append(r.unread, fmt.Sprintf("%s (%s)", what, consequence))
		return nil
	case meta.IsNoMatchError(err):
		return nil
	default:
		return err
	}
}

// readBindings reads what has become of objects that policies send.
func (r *objectReading) readBindings(ctx context.Context) error {
	add := func(spec *workv1alpha2.ResourceBindingSpec, status *workv1alpha2.ResourceBindingStatus) {
		r.addBindingRows(spec, status)
	}
	if r.mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		some, err := hub.ListAllPages(ctx, r.client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items }, client.InNamespace(r.namespace))
		for i := range some {
			add(&some[i].Spec, &some[i].Status)
		}
		return r.recordForbidden(err, "ResourceBindings", "objects that policies send are not listed")
	}
	all, err := hub.ListAllPages(ctx, r.client, func(l *workv1alpha2.ClusterResourceBindingList) []workv1alpha2.ClusterResourceBinding { return l.Items })
	for i := range all {
		add(&all[i].Spec, &all[i].Status)
	}
	return r.recordForbidden(err, "ClusterResourceBindings", "objects that policies send are not listed")
}

// addBindingRows adds a row for each cluster of a binding.
func (r *objectReading) addBindingRows(spec *workv1alpha2.ResourceBindingSpec, status *workv1alpha2.ResourceBindingStatus) {
	of := spec.Resource
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
	if !r.labels.Empty() && !r.selected[client.ObjectKey{Namespace: of.Namespace, Name: of.Name}] {
		return
	}
	reported := map[string]workv1alpha2.AggregatedStatusItem{}
	for _, target := range spec.Clusters {
		reported[target.Name] = workv1alpha2.AggregatedStatusItem{}
	}
	for _, by := range spec.RequiredBy {
		for _, target := range by.Clusters {
			reported[target.Name] = workv1alpha2.AggregatedStatusItem{}
		}
	}
	for _, item := range status.AggregatedStatus {
		reported[item.ClusterName] = item
	}
	for cluster, item := range reported {
		if !r.isWanted(kind, of.Namespace, of.Name, cluster) {
			continue
		}
		told := objectRow{Namespace: of.Namespace, Name: of.Name, Cluster: cluster, Adoption: adoption(item.Applied, item.AppliedMessage), Health: string(item.Health), Reason: item.AppliedMessage}
		if item.Status != nil {
			told.Status = item.Status.Raw
		}
		r.rows = append(r.rows, told)
	}
}

// adoption reports whether an object in a cluster is managed from the hub.
func adoption(applied bool, message string) string {
	switch {
	case applied:
		return adopted
	case strings.Contains(message, taken):
		return somebody
	default:
		return unknown
	}
}

// readWorks reads what has become of objects that somebody sends without a policy.
func (r *objectReading) readWorks(ctx context.Context) error {
	namespaces := r.clusters
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	notOfBindings, err := labels.Parse("!" + workv1alpha2.LabelResourceBindingID + ",!" + workv1alpha2.LabelClusterResourceBindingID)
	if err != nil {
		return fmt.Errorf("select works: %w", err)
	}
	for _, namespace := range namespaces {
		found, err := hub.ListAllPages(ctx, r.client, func(l *workv1.ManifestWorkList) []workv1.ManifestWork { return l.Items },
			client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: notOfBindings})
		what := "ManifestWorks"
		if namespace != "" {
			what += " of cluster " + namespace
		}
		if err := r.recordForbidden(err, what, "objects that are sent without a policy are not listed"); err != nil {
			return err
		}
		for i := range found {
			if err := r.addWorkRows(&found[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addWorkRows adds a row for each object of a work.
func (r *objectReading) addWorkRows(work *workv1.ManifestWork) error {
	for i, manifest := range work.Spec.Workload.Manifests {
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(manifest.Raw, object); err != nil {
			return fmt.Errorf("decode manifest %d of work %s of cluster %s: %w", i, work.Name, work.Namespace, err)
		}
		if !r.isWanted(object.GroupVersionKind().GroupKind(), object.Namespace, object.Name, work.Namespace) || !r.labels.Matches(labels.Set(object.Labels)) {
			continue
		}
		told := objectRow{Namespace: object.Namespace, Name: object.Name, Cluster: work.Namespace, Adoption: unknown}
		at := slices.IndexFunc(work.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool { return int(m.ResourceMeta.Ordinal) == i })
		if at >= 0 {
			told.setReported(&work.Status.ResourceStatus.Manifests[at])
		}
		r.rows = append(r.rows, told)
	}
	return nil
}

// setReported notes what the agent says of an object.
func (r *objectRow) setReported(m *workv1.ManifestCondition) {
	if applied := meta.FindStatusCondition(m.Conditions, workv1.ManifestConditionApplied); applied != nil {
		r.Adoption = adoption(applied.Status == metav1.ConditionTrue, applied.Message)
		if applied.Status != metav1.ConditionTrue {
			r.Reason = applied.Message
		}
	}
	values := map[string]any{}
	for _, v := range m.StatusFeedback.Values {
		field := v.FieldValue
		switch {
		case v.Name == "health" && field.String != nil:
			r.Health = *field.String
		case v.Name == "status" && field.JSONRaw != nil:
			if r.Status = readStatus(*field.JSONRaw); r.Status == nil {
				r.Reason = strings.TrimSpace(r.Reason + " " + unreadable)
			}
		case field.Integer != nil:
			values[v.Name] = *field.Integer
		case field.String != nil:
			values[v.Name] = *field.String
		case field.Boolean != nil:
			values[v.Name] = *field.Boolean
		}
	}
	if len(r.Status) == 0 && len(values) > 0 {
		if raw, err := json.Marshal(values); err == nil {
			r.Status = raw
		}
	}
}

// readStatus returns a status that can be printed in any format, nil if the text is
// none: an agent writes what it likes there, and what is wrong with it must not keep
// anybody from reading of other clusters.
func readStatus(text string) json.RawMessage {
	var status any
	if err := utiljson.Unmarshal([]byte(text), &status); err != nil || valueDepth(status) > depthMax {
		return nil
	}
	// Written anew, it has nothing that only some readers of JSON take.
	raw, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return raw
}

// valueDepth is how many objects and lists of a value are within each other.
func valueDepth(value any) int {
	deepest := 0
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			deepest = max(deepest, valueDepth(field))
		}
	case []any:
		for _, item := range value {
			deepest = max(deepest, valueDepth(item))
		}
	default:
		return 0
	}
	return deepest + 1
}

// sortedRows returns the rows by namespace, name and cluster, that of the hub first.
func (r *objectReading) sortedRows() []objectRow {
	rows := append([]objectRow{}, r.rows...)
	slices.SortFunc(rows, func(a, b objectRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.rowOrder(), b.rowOrder()), cmp.Compare(a.Cluster, b.Cluster))
	})
	return rows
}
