// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kept trims cached objects to the fields that controllers read: in a cache of
// many thousands, what nobody reads is left out, and what many have in common is
// there once.
package kept

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/untrusted/memo"
)

const (
	// commonMax is how many strings are remembered at most, so that others are the same.
	commonMax = 4096
	// commonBytesMax is how long a string is at most that is remembered.
	commonBytesMax = 1024
	// commonBytesSum is how long the placements are together, as JSON, that are
	// remembered, and the same of maps. What is remembered stays when all that had it
	// are gone.
	commonBytesSum = 8 << 20
	// manifestsMax is of how many objects of a work something is kept: a work of a
	// binding has one, and what comes along with it.
	manifestsMax = 16
	// messageMax is how many bytes of the message of a condition are kept, and
	// healthMax how many of a health, which is one word.
	messageMax = 4096
	healthMax  = 64
)

// SharedValues is what many objects have in common. It is safe for concurrent use.
type SharedValues struct {
	placements *memo.Memo[*policyv1alpha1.Placement] // of themselves as JSON
	maps       *memo.Memo[map[string]string]         // of their keys and values

	mu      sync.Mutex
	strings map[string]string
}

// NewSharedValues returns what nothing has in common yet.
func NewSharedValues() *SharedValues {
	return &SharedValues{
		strings:    map[string]string{},
		placements: memo.NewMemo[*policyv1alpha1.Placement](commonBytesSum),
		maps:       memo.NewMemo[map[string]string](commonBytesSum),
	}
}

// InternString returns a string that is equal, and the same for all who ask.
func (c *SharedValues) InternString(text string) string {
	if text == "" || len(text) > commonBytesMax {
		return text
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, is := c.strings[text]; is {
		return known
	}
	if len(c.strings) >= commonMax {
		clear(c.strings)
	}
	c.strings[text] = text
	return text
}

func (c *SharedValues) internPlacement(p *policyv1alpha1.Placement) *policyv1alpha1.Placement {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return p // it is kept as it is
	}
	return c.placements.StoreIfAbsent(string(text), p)
}

// SlimMetadata leaves out who has written which field, what kubectl applied last, and
// what an object belongs to.
func (c *SharedValues) SlimMetadata(m *metav1.ObjectMeta) {
	m.OwnerReferences = nil
	c.internMetadata(m)
}

// internMetadata leaves out who has written which field, and what kubectl applied last.
func (c *SharedValues) internMetadata(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
	m.Namespace = c.InternString(m.Namespace)
	m.GenerateName = ""
	m.Labels, m.Annotations = c.internTexts(m.Labels), c.internTexts(m.Annotations)
	for i := range m.Finalizers {
		m.Finalizers[i] = c.InternString(m.Finalizers[i])
	}
}

// internTexts returns labels or annotations whose keys, and the values that many have,
// are the same for all. If many have all of the values they have the same map, which
// must not be changed, as all that a cache has.
func (c *SharedValues) internTexts(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	kept := make(map[string]string, len(all))
	own := false
	for key, value := range all {
		if isSharedKey(key) {
			value = c.InternString(value)
		} else {
			own = true
		}
		kept[c.InternString(key)] = value
	}
	if own {
		return kept
	}
	return c.internMap(kept)
}

// internMap returns a map that is equal, and the same for all who ask.
func (c *SharedValues) internMap(texts map[string]string) map[string]string {
	var by strings.Builder
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&by, "%q=%q,", key, texts[key])
	}
	return c.maps.StoreIfAbsent(by.String(), texts)
}

// isSharedKey reports whether many objects have the same value of a label or annotation:
// what says which policy they are of, and what that asks for.
func isSharedKey(key string) bool {
	return slices.Contains(claims.LabelKeys(), key) || slices.Contains(claims.AnnotationKeys(), key) || slices.Contains([]string{
		policyv1alpha1.AnnotationAppliedPlacement, policyv1alpha1.AnnotationAppliedOverrides, policyv1alpha1.AnnotationAppliedClusterOverrides,
		workv1alpha2.AnnotationResourceBindingNamespace,
	}, key)
}

func (c *SharedValues) internConditions(all []metav1.Condition) {
	for i := range all {
		one := &all[i]
		one.Type, one.Reason, one.Status = c.InternString(one.Type), c.InternString(one.Reason), metav1.ConditionStatus(c.InternString(string(one.Status)))
		one.Message = c.InternString(one.Message)
	}
}

// SlimBinding is a transform of caches. Of the statuses that clusters report it leaves
// what reports whether they have changed.
func (c *SharedValues) SlimBinding(obj any) (any, error) {
	b, ok := obj.(interface {
		workv1alpha2.Binding
		metav1.ObjectMetaAccessor
	})
	if !ok {
		return obj, nil
	}
	if meta, ok := b.GetObjectMeta().(*metav1.ObjectMeta); ok {
		c.SlimMetadata(meta)
	}
	spec := b.BindingSpec()
	status := b.BindingStatus()
	boundBinding(spec)
	spec.Placement = c.internPlacement(spec.Placement)
	spec.Resource.APIVersion, spec.Resource.Kind = c.InternString(spec.Resource.APIVersion), c.InternString(spec.Resource.Kind)
	spec.Resource.Namespace, spec.SchedulerName = c.InternString(spec.Resource.Namespace), c.InternString(spec.SchedulerName)
	for i := range spec.Clusters {
		spec.Clusters[i].Name = c.InternString(spec.Clusters[i].Name)
	}
	for _, referrer := range spec.RequiredBy {
		for i, target := range referrer.Clusters { // nobody asks for more than the names
			referrer.Clusters[i] = workv1alpha2.TargetCluster{Name: c.InternString(target.Name)}
		}
	}
	c.internConditions(status.Conditions)
	status.AggregatedStatus = sum.DigestItems(status.AggregatedStatus)
	for i := range status.AggregatedStatus {
		item := &status.AggregatedStatus[i]
		item.ClusterName, item.AppliedMessage = c.InternString(item.ClusterName), c.InternString(item.AppliedMessage)
		item.Health = workv1alpha2.ResourceHealth(c.InternString(string(item.Health)))
	}
	return obj, nil
}

// SlimWork is a transform of caches: deliver.SlimWork, of whose status only that is
// left which is summed up or told, and as much as an agent says of one object. All
// else is whatever the member likes, and would fill the memory.
func (c *SharedValues) SlimWork(obj any) (any, error) {
	slim, err := deliver.SlimWork(obj)
	work, ok := slim.(*workv1.ManifestWork)
	if err != nil || !ok {
		return slim, err //nolint:wrapcheck // it never fails
	}
	c.SlimMetadata(&work.ObjectMeta)
	said := work.Status
	work.Status = workv1.ManifestWorkStatus{
		Conditions: c.selectConditions(said.Conditions, workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionDispatching),
	}
	values := []string{karmadaworkv1alpha1.FeedbackStatus, karmadaworkv1alpha1.FeedbackHealth}
	for _, of := range said.ResourceStatus.Manifests[:min(len(said.ResourceStatus.Manifests), manifestsMax)] {
		work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			Conditions:     c.selectConditions(of.Conditions, workv1.ManifestConditionApplied, workv1.ManifestConditionStatusFeedbackSynced),
			StatusFeedback: workv1.StatusFeedbackResult{Values: c.feedbackValues(of.StatusFeedback.Values, values...)},
		})
		values = []string{karmadaworkv1alpha1.FeedbackHealth} // what comes along has no status that is read
	}
	return work, nil
}

// feedbackValues returns what an agent says of the status or the health of an object. Of a
// status that is too long it leaves enough to see that it is.
func (c *SharedValues) feedbackValues(all []workv1.FeedbackValue, names ...string) []workv1.FeedbackValue {
	var kept []workv1.FeedbackValue
	for _, name := range names {
		at := slices.IndexFunc(all, func(v workv1.FeedbackValue) bool { return v.Name == name })
		if at < 0 {
			continue
		}
		said := all[at].FieldValue
		value := workv1.FieldValue{Type: workv1.ValueType(c.InternString(string(said.Type)))}
		switch {
		case name == karmadaworkv1alpha1.FeedbackStatus && said.JSONRaw != nil:
			value.JSONRaw = new(c.InternString(truncateText(*said.JSONRaw, workv1.StatusSizeMax+utf8.UTFMax)))
		case name == karmadaworkv1alpha1.FeedbackHealth && said.String != nil:
			value.String = new(c.InternString(truncateText(*said.String, healthMax)))
		}
		kept = append(kept, workv1.FeedbackValue{Name: name, FieldValue: value})
	}
	return kept
}

// selectConditions returns the conditions of some types, the first of each, in the order of the
// types.
func (c *SharedValues) selectConditions(all []metav1.Condition, types ...string) []metav1.Condition {
	var kept []metav1.Condition
	for _, name := range types {
		if one := meta.FindStatusCondition(all, name); one != nil {
			said := *one
			said.Message = truncateText(said.Message, messageMax)
			kept = append(kept, said)
		}
	}
	kept = slices.Clip(kept)
	c.internConditions(kept)
	return kept
}

// truncateText returns the beginning of a text that is longer than the most that it may be. What
// it returns does not keep the rest in memory.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}

// SlimObject is a transform of caches for all other kinds.
func (c *SharedValues) SlimObject(obj any) (any, error) {
	if object, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := object.GetObjectMeta().(*metav1.ObjectMeta); ok {
			c.internMetadata(meta)
		}
	}
	if policy, ok := obj.(policyv1alpha1.Policy); ok {
		boundPolicy(policy.PropagationSpec())
	}
	return obj, nil
}
