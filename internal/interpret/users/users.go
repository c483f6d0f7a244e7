// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package users interprets objects as the users of a hub say: by
// ResourceInterpreterCustomizations, or by webhooks that
// ResourceInterpreterWebhookConfigurations name. It has the order in which all are asked
// who interpret objects, for hub, agents and command line.
//
// It does not read what users say: each of these has a way of its own to do so.
package users

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/webhook"
)

// UserInterpreters are customizations and webhooks, as a layer of a Chain: a webhook is
// asked for what no customization says. It is safe for concurrent use.
type UserInterpreters struct {
	calls   webhook.Caller
	scripts *customized.DynamicKinds

	mu sync.RWMutex
	// configured are the webhooks as they are configured, by the configuration.
	configured map[string][]configv1alpha1.ResourceInterpreterWebhook
	webhooks   *webhook.Webhooks
	// asked are the kinds of which somebody knows the revision: a rule may be for any kind.
	asked map[schema.GroupVersionKind]struct{}
}

// NewUserInterpreters returns a layer of which users say nothing yet. Scripts find the
// time that now returns, and webhooks are called by calls.
func NewUserInterpreters(now func() time.Time, calls webhook.Caller) *UserInterpreters {
	return &UserInterpreters{
		calls: calls, scripts: customized.NewDynamicKinds(lua.NewMachine(now)), asked: map[schema.GroupVersionKind]struct{}{},
	}
}

// Operations is part of interpret.Layer.
func (u *UserInterpreters) Operations(kind schema.GroupVersionKind) interpret.Operations {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return interpret.Chain{u.scripts, u.webhooks}.Operations(kind)
}

// SetInterpreters makes customizations and configurations all that users say, but for
// those that are being deleted. It returns the kinds of which something else is said now.
func (u *UserInterpreters) SetInterpreters(customizations []configv1alpha1.ResourceInterpreterCustomization, configurations []configv1alpha1.ResourceInterpreterWebhookConfiguration) KindChanges {
	u.mu.Lock()
	defer u.mu.Unlock()
	changes := KindChanges{Kinds: u.scripts.SetCustomizations(countingScripts(customizations)), before: u.webhooks}
	configured := map[string][]configv1alpha1.ResourceInterpreterWebhook{}
	for i := range configurations {
		if configurations[i].DeletionTimestamp.IsZero() {
			configured[configurations[i].Name] = configurations[i].Webhooks
		}
	}
	if !reflect.DeepEqual(configured, u.configured) {
		u.configured, u.webhooks = configured, webhook.NewWebhooks(configurations, u.calls)
	}
	changes.after = u.webhooks
	for kind := range u.asked {
		if !changes.after.SameForKind(changes.before, kind) {
			changes.Kinds = append(changes.Kinds, kind)
		}
	}
	return changes
}

// countingScripts returns what customizations say that say something and are not being deleted.
func countingScripts(customizations []configv1alpha1.ResourceInterpreterCustomization) []lua.Customization {
	all := make([]lua.Customization, 0, len(customizations))
	for i := range customizations {
		if c := customized.LuaCustomizationOf(&customizations[i]); len(c.Scripts) > 0 && customizations[i].DeletionTimestamp.IsZero() {
			all = append(all, c)
		}
	}
	return all
}

// KindRevision tells apart what users say of a kind from what they said before: a number
// changes when that does, and is 0 as long as they have never said anything.
type KindRevision struct {
	// Retention is of what of the objects is the cluster's.
	Retention uint64
	// Report is of what is reported of them.
	Report uint64
}

// RevisionOf tells what users say of a kind from what they said before.
func (u *UserInterpreters) RevisionOf(kind schema.GroupVersionKind) KindRevision {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked[kind] = struct{}{}
	return KindRevision{
		Retention: u.scripts.ChangeRevision(kind, lua.Retention) +
			u.webhooks.KindFingerprint(kind, configv1alpha1.InterpreterOperationRetain),
		Report: u.scripts.ChangeRevision(kind, lua.StatusReflection, lua.HealthInterpretation) +
			u.webhooks.KindFingerprint(kind, configv1alpha1.InterpreterOperationInterpretStatus, configv1alpha1.InterpreterOperationInterpretHealth),
	}
}

// KindChanges are kinds of which something else is said than before.
type KindChanges struct {
	// Kinds are those of customizations, and those of webhooks that RevisionOf was asked
	// about. Webhooks may be for others, too.
	Kinds []schema.GroupVersionKind
	// before and after are the webhooks; they are the same if none has changed.
	before, after *webhook.Webhooks
	// all says that something else may be said of any kind.
	all bool
}

// IsEmpty reports whether everything is as before.
func (c KindChanges) IsEmpty() bool { return !c.all && len(c.Kinds) == 0 && c.before == c.after }

// MergeChanges adds changes that were taken in later. Those may undo what objects were looked at
// with in between, so two at a time are rather too much than too little.
func (c KindChanges) MergeChanges(later KindChanges) KindChanges {
	switch {
	case later.IsEmpty():
		return c
	case c.IsEmpty():
		return later
	}
	return KindChanges{all: true}
}

// Has reports whether something else is said of a kind.
func (c KindChanges) Has(kind schema.GroupVersionKind) bool {
	return c.all || slices.Contains(c.Kinds, kind) || !c.after.SameForKind(c.before, kind)
}
