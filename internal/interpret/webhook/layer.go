// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/interpret"
)

const (
	// timeoutDefault is how long a webhook may take, of configurations that do not
	// say so: they were made before the definition had a default.
	timeoutDefault = 10 * time.Second
	portDefault    = 443
)

// webhookOperations are all operations of webhooks.
func webhookOperations() []configv1alpha1.InterpreterOperation {
	return []configv1alpha1.InterpreterOperation{
		configv1alpha1.InterpreterOperationInterpretReplica, configv1alpha1.InterpreterOperationInterpretComponent,
		configv1alpha1.InterpreterOperationReviseReplica, configv1alpha1.InterpreterOperationRetain,
		configv1alpha1.InterpreterOperationInterpretStatus, configv1alpha1.InterpreterOperationAggregateStatus,
		configv1alpha1.InterpreterOperationInterpretHealth, configv1alpha1.InterpreterOperationInterpretDependency,
	}
}

// Caller opens lines to webhooks.
type Caller interface {
	Lines(targets []callout.Target) []*callout.ServerLine
}

// hook is a webhook.
type hook struct {
	configuration, name string
	target              callout.Target
	rules               []configv1alpha1.RuleWithOperations
	line                *callout.ServerLine
}

// Webhooks are a layer of the kinds that webhooks interpret. Nil knows no kind.
type Webhooks struct {
	// hooks are in the order in which they are asked.
	hooks []*hook
}

// NewWebhooks returns the webhooks of configurations. Without a caller, none can be asked.
func NewWebhooks(configurations []configv1alpha1.ResourceInterpreterWebhookConfiguration, caller Caller) *Webhooks {
	sorted := slices.Clone(configurations)
	slices.SortFunc(sorted, func(a, b configv1alpha1.ResourceInterpreterWebhookConfiguration) int {
		return cmp.Compare(a.Name, b.Name)
	})
	w := &Webhooks{}
	var targets []callout.Target
	for i := range sorted {
		if !sorted[i].DeletionTimestamp.IsZero() {
			continue
		}
		for j := range sorted[i].Webhooks {
			from := &sorted[i].Webhooks[j]
			target := targetOf(sorted[i].Name, from)
			targets = append(targets, target)
			w.hooks = append(w.hooks, &hook{configuration: sorted[i].Name, name: from.Name, target: target, rules: from.Rules})
		}
	}
	if caller == nil {
		return w
	}
	for i, line := range caller.Lines(targets) {
		w.hooks[i].line = line
	}
	return w
}

func targetOf(configuration string, from *configv1alpha1.ResourceInterpreterWebhook) callout.Target {
	target := callout.Target{
		Name: configuration + "/" + from.Name, URL: ptr.Deref(from.ClientConfig.URL, ""), CABundle: from.ClientConfig.CABundle, Timeout: timeoutDefault,
	}
	if from.TimeoutSeconds != nil {
		target.Timeout = time.Duration(*from.TimeoutSeconds) * time.Second
	}
	if service := from.ClientConfig.Service; service != nil {
		target.URL = ""
		target.Path = ptr.Deref(service.Path, "")
		target.Service = &callout.ServiceRef{Namespace: service.Namespace, Name: service.Name, Port: ptr.Deref(service.Port, portDefault)}
	}
	return target
}

// WebhookServices returns the Services that webhooks are, in the order of the webhooks.
func (w *Webhooks) WebhookServices() []callout.ServiceRef {
	var all []callout.ServiceRef
	if w == nil {
		return nil
	}
	for _, h := range w.hooks {
		if h.target.Service != nil && !slices.Contains(all, *h.target.Service) {
			all = append(all, *h.target.Service)
		}
	}
	return all
}

// Operations is part of interpret.Layer.
func (w *Webhooks) Operations(kind schema.GroupVersionKind) interpret.Operations {
	var known interpret.Operations
	for operation, h := range w.chooseWebhooks(kind) {
		known.Custom = known.Custom.WithFallback(h.customOperations(operation))
	}
	return known
}

// chooseWebhooks returns the webhooks that are asked about a kind, by operation.
func (w *Webhooks) chooseWebhooks(kind schema.GroupVersionKind) map[configv1alpha1.InterpreterOperation]*hook {
	if w == nil || len(w.hooks) == 0 {
		return nil
	}
	var chosen map[configv1alpha1.InterpreterOperation]*hook
	for _, operation := range webhookOperations() {
		for _, h := range w.hooks {
			if !h.matchesRules(operation, kind) {
				continue
			}
			if chosen == nil {
				chosen = map[configv1alpha1.InterpreterOperation]*hook{}
			}
			chosen[operation] = h
			break
		}
	}
	return chosen
}

// SameForKind reports whether a kind is interpreted by other webhooks in the same way: the
// same ones are asked for the same, in the same places.
func (w *Webhooks) SameForKind(other *Webhooks, kind schema.GroupVersionKind) bool {
	one := w.chooseWebhooks(kind)
	two := other.chooseWebhooks(kind)
	if len(one) != len(two) {
		return false
	}
	for operation, h := range one {
		if two[operation] == nil || !reflect.DeepEqual(h.target, two[operation].target) {
			return false
		}
	}
	return true
}

// KindFingerprint is a number that differs if other webhooks are asked for any of the
// operations of a kind, or the same ones in other places; 0 if none is asked.
func (w *Webhooks) KindFingerprint(kind schema.GroupVersionKind, operations ...configv1alpha1.InterpreterOperation) uint64 {
	chosen := w.chooseWebhooks(kind)
	sum := fnv.New64a()
	asked := false
	for _, operation := range operations {
		if h := chosen[operation]; h != nil {
			asked = true
			fmt.Fprintf(sum, "%s %q %q %v %q %q %s\n", operation, h.target.Name, h.target.URL, ptr.Deref(h.target.Service, callout.ServiceRef{}), h.target.Path, h.target.CABundle, h.target.Timeout)
		}
	}
	if !asked {
		return 0
	}
	return sum.Sum64() | 1
}

// matchesRules reports whether the webhook is there for an operation of a kind.
func (h *hook) matchesRules(operation configv1alpha1.InterpreterOperation, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(h.rules, func(rule configv1alpha1.RuleWithOperations) bool {
		return containsOrAny(rule.Operations, operation) && containsOrAny(rule.APIGroups, kind.Group) && containsOrAny(rule.APIVersions, kind.Version) && containsOrAny(rule.Kinds, kind.Kind)
	})
}

// containsOrAny reports whether a list has a value, or the one that stands for all.
func containsOrAny[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
