// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"time"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// keptMax is for how long an object may be brought to the member that keeps room from others: as long as a few slow
// requests. Then it is tried again.
const keptMax = 4 * apply.CallTimeout

// contentRoom is the room that an object has for its content while it is brought to the member.
type contentRoom struct {
	// end ends the delivery.
	end context.CancelFunc
	// limited says that this is after keptMax, as something is kept.
	limited bool
}

// deliverWithinRoom brings the object to the member. What is decoded of its manifest for that counts for the
// owner of the work.
func (o *object) deliverWithinRoom(ctx context.Context, how strategy) {
	ctx, release := o.Manifests.BeginReservation(ctx, plan.ContentOwner(o.Work))
	defer release()
	ctx, o.room.end = context.WithCancel(ctx)
	defer o.room.end()
	how.deliverObject(ctx, o)
}

// keepContent waits until there is room for the content of the manifest and of the object in the cluster, to use them until
// the object is delivered. Without it, content is used until the next request only. It comes before what it is for is decoded.
func (o *object) keepContent(ctx context.Context) error {
	kept, err := apply.KeepContent(ctx, o.rawManifest())
	if err != nil {
		return malformedManifest(o.want, err)
	}
	if kept && !o.room.limited {
		o.room.limited = true
		limit := time.AfterFunc(keptMax, o.room.end)
		context.AfterFunc(ctx, func() { limit.Stop() })
	}
	return nil
}

// keptContent is the decoded manifest, which may be used until the object is delivered.
func (o *object) keptContent(ctx context.Context) (map[string]any, error) {
	if err := o.keepContent(ctx); err != nil {
		return nil, err
	}
	return o.manifestContent(ctx)
}

// manifestContent is the decoded manifest. It is not used after another request, unless it is kept.
func (o *object) manifestContent(ctx context.Context) (map[string]any, error) {
	content, err := apply.NormalizedContent(ctx, o.rawManifest())
	if err != nil {
		return nil, malformedManifest(o.want, err)
	}
	return content, nil
}
