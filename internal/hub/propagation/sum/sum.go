// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sum sums up what became of the object of a binding in the clusters.
//
// The package is pure.
package sum

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// statusesMax is how many bytes the statuses of a binding have together at most.
	// What the hub stores must not have more than 1.5 MiB.
	statusesMax = 1 << 20
	// messagesMax is how many bytes the messages of a binding have together at most, but
	// for messageMin of each: a cluster may say as much as it likes of its object.
	messagesMax = 256 << 10
	messageMin  = 128
	// clustersTold is how many clusters a message names.
	clustersTold = 5
	// unanswered is said of a cluster from when it is chosen until its agent answers,
	// so that nothing has to be written when its work is created.
	unanswered = "The cluster has not reported yet whether it has the object."
	// digestBytes is how long a digest of a status is.
	digestBytes = 34
)

// SummaryInput is what is summed up.
type SummaryInput struct {
	Spec  *workv1alpha2.ResourceBindingSpec
	Works []workv1.ManifestWork
	// Problems say why there is no work for a cluster.
	Problems map[string]error
	// Fleet tells which clusters are silent.
	Fleet view.Fleet
}

// AggregateItems returns an item for each cluster that the object is sent to, in the order
// of names. What a cluster said last stays while it says nothing, with its age;
// whether the object works there is not known then.
func AggregateItems(in SummaryInput) []workv1alpha2.AggregatedStatusItem {
	works := make(map[string]*workv1.ManifestWork, len(in.Works))
	for i := range in.Works {
		works[in.Works[i].Namespace] = &in.Works[i]
	}
	var items []workv1alpha2.AggregatedStatusItem
	for _, target := range deliver.BindingTargets(in.Spec) {
		item := workv1alpha2.AggregatedStatusItem{ClusterName: target.Name, Health: workv1alpha2.ResourceUnknown, AppliedMessage: unanswered}
		if work := works[target.Name]; work != nil {
			item = aggregateItem(work)
		}
		if problem := in.Problems[target.Name]; problem != nil {
			item.Applied, item.AppliedMessage = false, problemText(problem)
		}
		if cluster, found := in.Fleet.ClusterNamed(target.Name); found && silenceReason(cluster) != "" {
			item.Health = workv1alpha2.ResourceUnknown
			item.AppliedMessage = strings.TrimSpace(fmt.Sprintf("%s %s since %s; this is its last report.",
				item.AppliedMessage, silenceReason(cluster), cluster.AvailableSince.UTC().Format(time.RFC3339)))
		}
		items = append(items, item)
	}
	return shrinkItems(items)
}

// silenceReason says that nothing new is known of a cluster, as the beginning of a
// sentence; "" if it is available, or nobody has said yet whether it is.
func silenceReason(cluster view.Cluster) string {
	switch cluster.Available {
	case metav1.ConditionUnknown:
		return "The hub has not heard from the cluster"
	case metav1.ConditionFalse:
		return "The cluster has not been available"
	default:
		return ""
	}
}

// aggregateItem returns what a work says.
func aggregateItem(work *workv1.ManifestWork) workv1alpha2.AggregatedStatusItem {
	item := workv1alpha2.AggregatedStatusItem{ClusterName: work.Namespace, Health: workv1alpha2.ResourceUnknown}
	switch applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); {
	case applied == nil:
		item.AppliedMessage = unanswered
	case applied.ObservedGeneration != 0 && applied.ObservedGeneration < work.Generation:
		item.AppliedMessage = "The cluster has not applied the latest change yet."
	case applied.Status == metav1.ConditionTrue:
		item.Applied, item.AppliedMessage = true, cmp.Or(interpretationProblem(work), remarkOfApplied(work))
	default:
		item.AppliedMessage = notAppliedMessage(work, applied)
	}
	if len(work.Status.ResourceStatus.Manifests) == 0 {
		return item
	}
	for _, value := range work.Status.ResourceStatus.Manifests[0].StatusFeedback.Values { // what else is sent is not the object
		switch v := value.FieldValue; {
		case value.Name == karmadaworkv1alpha1.FeedbackStatus && v.JSONRaw != nil && saysAnything(*v.JSONRaw):
			problem := statusProblem(*v.JSONRaw)
			item.AppliedMessage = strings.TrimSpace(item.AppliedMessage + " " + problem)
			switch problem {
			case "":
				item.Status = &runtime.RawExtension{Raw: normalizeStatus(*v.JSONRaw)}
			case excessive:
				item.Health = workv1alpha2.ResourceUnknown
				item.Status = nil
				return item
			}
		case value.Name == karmadaworkv1alpha1.FeedbackHealth && v.String != nil:
			item.Health = parseHealth(*v.String)
		}
	}
	return item
}

// problemText says what is wrong, and of interpreters what to do about it, too.
func problemText(problem error) string {
	if custom := (*interpret.CustomError)(nil); errors.As(problem, &custom) {
		return interpret.ErrorSentences(problem)
	}
	return problem.Error()
}

// interpretationProblem says why the status and the health of an object that is applied are
// not known, if that is because of who customizes its kind; else it is "".
func interpretationProblem(work *workv1.ManifestWork) string {
	if len(work.Status.ResourceStatus.Manifests) == 0 {
		return ""
	}
	c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestConditionStatusFeedbackSynced)
	if c == nil || c.Reason != workv1.ManifestReasonInterpretationFailed {
		return ""
	}
	return c.Message
}

// remarkOfApplied is what there is to say of an object that is applied, such as fields that the cluster
// does not know: who writes templates may not read works. Else it is "".
func remarkOfApplied(work *workv1.ManifestWork) string {
	if len(work.Status.ResourceStatus.Manifests) == 0 {
		return ""
	}
	c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestConditionApplied)
	if c == nil || c.Status != metav1.ConditionTrue || !workv1.IsManifestRemark(c.Message) {
		return ""
	}
	return c.Message
}

// notAppliedMessage says why the object of a work is not applied: what is said of the object
// itself, or else of the work.
func notAppliedMessage(work *workv1.ManifestWork, applied *metav1.Condition) string {
	for i := range work.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestConditionApplied)
		if c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return applied.Message
}

// shrinkItems shortens long messages, and drops the largest statuses until the rest is
// within the limit, and says so.
func shrinkItems(items []workv1alpha2.AggregatedStatusItem) []workv1alpha2.AggregatedStatusItem {
	for i := range items {
		if limit := max(messageMin, messagesMax/len(items)); len(items[i].AppliedMessage) > limit {
			items[i].AppliedMessage = strings.ToValidUTF8(items[i].AppliedMessage[:limit], "") + "..."
		}
	}
	size := func(i int) int {
		if items[i].Status == nil {
			return 0
		}
		return len(items[i].Status.Raw)
	}
	total := 0
	bySize := make([]int, len(items))
	for i := range items {
		total += size(i)
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	for _, largest := range bySize {
		if total <= statusesMax {
			break
		}
		total -= size(largest)
		items[largest].Status = nil
		items[largest].AppliedMessage = strings.TrimSpace(items[largest].AppliedMessage +
			fmt.Sprintf(" The status is omitted: all statuses together are larger than %d bytes.", statusesMax))
	}
	return items
}

// DigestItems returns items whose statuses are short: what stands in the place of one
// differs if the status does. It leaves digests as they are.
func DigestItems(items []workv1alpha2.AggregatedStatusItem) []workv1alpha2.AggregatedStatusItem {
	short := slices.Clone(items)
	for i := range short {
		if status := short[i].Status; status != nil && len(status.Raw) > digestBytes {
			hash := sha256.Sum256(status.Raw)
			short[i].Status = &runtime.RawExtension{Raw: fmt.Appendf(nil, `"%x"`, hash[:digestBytes/2-1])}
		}
	}
	return short
}

// FullyAppliedCondition returns the condition that says whether all clusters that were
// chosen have the object.
func FullyAppliedCondition(spec *workv1alpha2.ResourceBindingSpec, items []workv1alpha2.AggregatedStatusItem) metav1.Condition {
	c := metav1.Condition{
		Type: workv1alpha2.BindingConditionFullyApplied, Status: metav1.ConditionFalse, Reason: workv1alpha2.BindingReasonFullyAppliedFailed,
	}
	var missing []string
	for _, item := range items {
		if !item.Applied {
			missing = append(missing, item.ClusterName)
		}
	}
	switch {
	case len(items) == 0:
		c.Message = "No cluster has been chosen."
	case len(missing) > clustersTold:
		c.Message = fmt.Sprintf("%d of %d clusters do not have the object as desired: %s and %d more. status.aggregatedStatus says why.",
			len(missing), len(items), strings.Join(missing[:clustersTold], ", "), len(missing)-clustersTold)
	case len(missing) > 0:
		c.Message = fmt.Sprintf("%d of %d clusters do not have the object as desired: %s. status.aggregatedStatus says why.",
			len(missing), len(items), strings.Join(missing, ", "))
	default:
		c.Status = metav1.ConditionTrue
		c.Reason = workv1alpha2.BindingReasonFullyAppliedSuccess
		c.Message = "All clusters have the object as desired."
	}
	return c
}

// ForTemplate returns the items as the kinds are aggregated from them.
func ForTemplate(items []workv1alpha2.AggregatedStatusItem) []interpret.ClusterItem {
	all := make([]interpret.ClusterItem, 0, len(items))
	for _, item := range items {
		one := interpret.ClusterItem{Cluster: item.ClusterName, Applied: item.Applied, Message: item.AppliedMessage, Health: string(item.Health)}
		if item.Status != nil {
			// What is no object counts as no status.
			_ = utiljson.Unmarshal(item.Status.Raw, &one.Status)
		}
		all = append(all, one)
	}
	return all
}

// StatusDifference returns what has to change in the status for it to be as it is
// wanted, as a merge patch has it: nil for a field that goes. An empty list or object where
// nothing is makes no difference by itself: kinds of Kubernetes are stored without, so that
// it would be written each time.
func StatusDifference(object *unstructured.Unstructured, wanted map[string]any) map[string]any {
	present, _, _ := unstructured.NestedMap(object.Object, "status") // what is no map is replaced
	changes := mergeDifference(present, wanted)
	if !addsContent(changes, present) {
		return nil
	}
	return changes
}

// addsContent reports whether changes do more than to add empty lists and objects where nothing is.
func addsContent(changes, present map[string]any) bool {
	for name, value := range changes {
		before, is := present[name]
		inner, deeper := value.(map[string]any)
		list, isList := value.([]any)
		switch {
		case !is && isList && len(list) == 0:
		case deeper:
			within, _ := before.(map[string]any)
			if is && within == nil || addsContent(inner, within) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

func mergeDifference(present, wanted map[string]any) map[string]any {
	changes := map[string]any{}
	for name, value := range wanted {
		before, is := present[name].(map[string]any)
		after, stays := value.(map[string]any)
		switch {
		case is && stays: // the server merges them
			if inner := mergeDifference(before, after); len(inner) > 0 {
				changes[name] = inner
			}
		case !equality.Semantic.DeepEqual(present[name], value):
			changes[name] = value
		}
	}
	for name := range present {
		if _, is := wanted[name]; !is {
			changes[name] = nil
		}
	}
	return changes
}
