// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

const (
	// reasonKindNotServed is the reason of the event on a policy that selects a kind
	// which the hub does not have.
	reasonKindNotServed = "KindNotServed"
	// reasonKindClusterScoped is the reason of the event on a PropagationPolicy that
	// selects a kind whose objects are in no namespace.
	reasonKindClusterScoped = "KindClusterScoped"
	// kindsTold is how many selectors a policy is told of at once.
	kindsTold = 10
	// action is what the event says that the controller was about.
	action = "Propagate"
)

// kindReporter tells on a policy which of the kinds that it selects the hub does not serve, and
// which it cannot send.
type kindReporter struct {
	mapper meta.RESTMapper
	events *events.Recorder

	mu   sync.Mutex
	said map[types.NamespacedName]map[string]notice // by reason
}

// notice is what was said last of a policy.
type notice struct {
	uid  types.UID
	text string
}

// reportKinds records an event if there is something to say that was not said before.
func (k *kindReporter) reportKinds(p policy) {
	k.recordOnce(p, reasonKindNotServed, k.missingKinds(p.PropagationSpec().ResourceSelectors))
	k.recordOnce(p, reasonKindClusterScoped, k.clusterScoped(p))
}

// recordOnce records an event with a text that was not said before; "" is nothing to say.
func (k *kindReporter) recordOnce(p policy, reason, text string) {
	now := notice{uid: p.GetUID(), text: events.ShortenNote(text)}
	name := types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}
	k.mu.Lock()
	news := now.text != "" && k.said[name][reason] != now
	k.recordNotice(name, reason, now)
	k.mu.Unlock()
	if news {
		k.events.Eventf(p, nil, corev1.EventTypeWarning, reason, action, "%s", now.text)
	}
}

// recordNotice remembers what was said last, with mu held.
func (k *kindReporter) recordNotice(name types.NamespacedName, reason string, now notice) {
	if k.said[name] == nil {
		k.said[name] = map[string]notice{}
	}
	k.said[name][reason] = now
	if now.text == "" {
		delete(k.said[name], reason)
	}
	if len(k.said[name]) == 0 {
		delete(k.said, name)
	}
}

// forgetPolicy forgets a policy that is gone.
func (k *kindReporter) forgetPolicy(name types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.said, name)
}

// clusterScoped says which selectors of a PropagationPolicy are about a kind whose objects
// are in no namespace, and so not in that of the policy; "" if none is.
func (k *kindReporter) clusterScoped(p policy) string {
	var wrong []string
	for i, s := range p.PropagationSpec().ResourceSelectors {
		kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		if p.GetNamespace() == "" || reserved.KindReservedReason(kind.GroupKind()) != "" {
			continue
		}
		mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
			wrong = append(wrong, fmt.Sprintf("%s: a %s is in no namespace", field.NewPath("spec", "resourceSelectors").Index(i), s.Kind))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return joinBounded(wrong) + ": a PropagationPolicy sends only what is in its namespace, so this needs a ClusterPropagationPolicy"
}

// joinBounded joins what is wrong with selectors.
func joinBounded(wrong []string) string {
	if more := len(wrong) - kindsTold; more > 0 {
		wrong = append(wrong[:kindsTold], fmt.Sprintf("and so in %d more selectors", more))
	}
	return strings.Join(wrong, "; ")
}

// missingKinds says which selectors are about a kind that the hub does not serve; ""
// if none is. Of a kind that it does not answer about, nothing is said.
func (k *kindReporter) missingKinds(selectors []policyv1alpha1.ResourceSelector) string {
	var missing []string
	for i, s := range selectors {
		kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		if reserved.KindReservedReason(kind.GroupKind()) != "" {
			continue // it is never sent, and admission has said so
		}
		if !k.servesKind(kind) {
			missing = append(missing, fmt.Sprintf("%s: the hub has no kind %s in %s", field.NewPath("spec", "resourceSelectors").Index(i), s.Kind, s.APIVersion))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return joinBounded(missing) + ": install its definition, and its objects are sent as soon as it is served, or correct apiVersion and kind"
}

// servesKind reports whether the hub serves a kind, or may do so.
func (k *kindReporter) servesKind(kind schema.GroupVersionKind) bool {
	_, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return !meta.IsNoMatchError(err)
}
