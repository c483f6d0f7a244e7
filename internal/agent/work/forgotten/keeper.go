// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forgotten

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

const (
	// fieldOwner owns the condition.
	fieldOwner = "work-agent"
	// settle is how long a report waits for further changes: works come and go
	// in waves.
	settle = time.Second
)

// KeeperOptions of a MissingWorksKeeper.
type KeeperOptions struct {
	Connection *fleet.Connection
	// Orphans returns the records whose works the hub does not have, as far as the
	// caches know.
	Orphans func(context.Context) ([]*workv1.AppliedManifestWork, error)
	// Again makes it be decided anew whether a record goes.
	Again func(*workv1.AppliedManifestWork)
	Log   logr.Logger
}

// MissingWorksKeeper keeps what the hub of one connection forgot. It is safe for concurrent
// use.
type MissingWorksKeeper struct {
	KeeperOptions
	loop   *fleet.Loop
	listed chan struct{}
	list   func()
	// alert says that there may be something to report, or to take back.
	alert atomic.Bool
	// kept says that something was kept since the orphans were last looked at. The
	// cache may never tell of an annotation that somebody soon took back.
	kept      atomic.Bool
	questions hubQuestions

	// Only the loop uses what follows.
	heard string // the annotation as it was when the orphans were last looked at
}

// NewMissingWorksKeeper returns a MissingWorksKeeper that follows the ManagedCluster as long as ctx lasts.
func NewMissingWorksKeeper(ctx context.Context, o KeeperOptions) (*MissingWorksKeeper, error) {
	k := &MissingWorksKeeper{KeeperOptions: o, listed: make(chan struct{})}
	k.list = sync.OnceFunc(func() { close(k.listed) })
	k.loop = fleet.NewLoop(k.reportMissing)
	k.loop.Settle = settle
	k.loop.Failed = func(_ context.Context, err error) {
		o.Log.Info("The agent cannot report which ManifestWorks are missing, and tries again",
			"cluster", o.Connection.Name, "problem", err.Error())
	}
	informer, err := o.Connection.Hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching ManagedCluster %q: %w", o.Connection.Name, err)
	}
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: k.observeCluster, UpdateFunc: func(_, after any) { k.observeCluster(after) }}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watching ManagedCluster %q: %w", o.Connection.Name, err)
	}
	o.Connection.GoSynced(ctx, func() {
		select {
		case <-ctx.Done():
		case <-k.listed:
			k.loop.Start(ctx)
		}
	}, registration.HasSyncedChecker())
	return k, nil
}

// MarkListed is told once that the caches have all works and records.
func (k *MissingWorksKeeper) MarkListed() { k.list() }

// NotifyChanged is told when a work or a record came or went.
func (k *MissingWorksKeeper) NotifyChanged() {
	if k.alert.Load() {
		k.loop.Kick()
	}
}

// observeCluster looks whether a ManagedCluster says, or has to say, something of a restore.
func (k *MissingWorksKeeper) observeCluster(object any) {
	mc, ok := object.(*clusterv1.ManagedCluster)
	if !ok || mc.Name != string(k.Connection.Name) {
		return
	}
	if alert := isConcerned(mc); k.alert.Swap(alert) || alert {
		k.loop.Kick()
	}
}

// isConcerned reports whether there is anything to do for a ManagedCluster: as a rule
// there is not.
func isConcerned(mc *clusterv1.ManagedCluster) bool {
	return verdictOf(mc).published || meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing)
}

// KeepsRecord asks the hub whether a record stays whose work it does not have.
func (k *MissingWorksKeeper) KeepsRecord(ctx context.Context, record *workv1.AppliedManifestWork) (bool, error) {
	said, err := k.questions.askHub(ctx, k.readVerdict)
	if err != nil {
		return true, fmt.Errorf("reading ManagedCluster %q before what the missing ManifestWork %q brought is deleted: %w",
			k.Connection.Name, workNameOf(record), err)
	}
	if !said.keepsRecord(record) {
		return false, nil
	}
	k.kept.Store(true)
	k.alert.Store(true)
	return true, nil
}

// reportMissing says which works are missing, if that changed.
func (k *MissingWorksKeeper) reportMissing(ctx context.Context) (time.Duration, error) {
	mc := &clusterv1.ManagedCluster{}
	key := client.ObjectKey{Name: string(k.Connection.Name)}
	if err := k.Connection.Hub.GetClient().Get(ctx, key, mc); apierrors.IsNotFound(err) {
		return 0, nil // the connection is about to end
	} else if err != nil {
		return 0, fmt.Errorf("reading ManagedCluster %q: %w", key.Name, err)
	}
	said := verdictOf(mc)
	kept := k.kept.Swap(false)
	if !isConcerned(mc) && said.text == k.heard && !kept {
		return 0, nil
	}
	orphans, err := k.Orphans(ctx)
	if err != nil {
		k.kept.CompareAndSwap(false, kept)
		return 0, err
	}
	missing := sets.New[string]()
	revised := k.heard != "" && said.text != k.heard || kept && !said.published
	for _, record := range orphans {
		if said.keepsRecord(record) {
			missing.Insert(workNameOf(record))
		}
		if revised { // otherwise whoever lets go of it asks first
			k.Again(record)
		}
	}
	k.heard = said.text
	return 0, k.writeCondition(ctx, mc, said.missingCondition(missing.UnsortedList()))
}

// writeCondition writes the condition if it says something else than before. That nothing is
// missing is only said where something was.
func (k *MissingWorksKeeper) writeCondition(ctx context.Context, mc *clusterv1.ManagedCluster, condition metav1.Condition) error {
	list := conditions.SelectByType(mc.Status.Conditions, condition.Type)
	had := len(list) > 0
	if !had && condition.Status == metav1.ConditionFalse {
		return nil
	}
	if had && list[0].Status == condition.Status && list[0].Reason == condition.Reason && list[0].Message == condition.Message {
		return nil
	}
	conditions.SetCondition(&list, 0, condition)
	if err := conditions.ApplyStatus(ctx, k.Connection.Hub.GetClient(), mc, fieldOwner, list, nil); err != nil {
		return err
	}
	k.Log.Info("The hub was restored from a backup", "cluster", k.Connection.Name, "missing", condition.Message)
	return nil
}
