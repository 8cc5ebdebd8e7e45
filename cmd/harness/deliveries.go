package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

type deliveriesCmd struct {
	List      deliveriesListCmd      `cmd:"" help:"List what is told of runs, to whom, and whether it has arrived."`
	Reconcile deliveriesReconcileCmd `cmd:"" help:"Tell again what has not arrived, and what an endpoint was never told of a run."`
}

func (deliveriesCmd) Help() string {
	return `Each endpoint of the configuration is told the records that it lists of every run that has ended: its result, its history, its metrics.
They are made in the transaction that closes the run and sent by workers. Required ones are sent until they arrive; others are
abandoned in the end. Nothing that an endpoint does or answers changes a run or makes one.`
}

// deliveryView is the JSON of one delivery.
type deliveryView struct {
	Endpoint      string              `json:"endpoint"`
	Record        queue.Record        `json:"record"`
	Required      bool                `json:"required"` // false: best-effort
	State         queue.DeliveryState `json:"state"`
	Attempts      int                 `json:"attempts"`
	NextAttemptAt *string             `json:"next_attempt_at"`
	LastError     string              `json:"last_error"`
	FinishedAt    *string             `json:"finished_at"`
}

func deliveryOf(d queue.Delivery) deliveryView {
	view := deliveryView{
		Endpoint: d.Endpoint, Record: d.Record, Required: d.Required, State: d.State, Attempts: d.Attempts, LastError: d.LastError,
		FinishedAt: stamp(d.FinishedAt),
	}
	if d.FinishedAt == nil {
		view.NextAttemptAt = stamp(&d.NextAttemptAt)
	}
	return view
}

// deliveryFilter chooses deliveries on the command line.
type deliveryFilter struct {
	Run      string `help:"Those of one run." placeholder:"RUN"`
	Endpoint string `help:"Those to one endpoint." placeholder:"NAME"`
}

type deliveriesListCmd struct {
	deliveryFilter
	State string `help:"Those in one state: pending, delivered or abandoned." enum:"pending,delivered,abandoned," default:"" placeholder:"STATE"`
	Limit int    `help:"How many at most. Default: 100" default:"100" placeholder:"N"`
}

func (deliveriesListCmd) Help() string {
	return `Lists the oldest first.

Examples:

    harness deliveries list --state pending
    harness deliveries list --run RUN --json`
}

// listedDelivery is the JSON of one delivery in a list.
type listedDelivery struct {
	ID  string `json:"id"`
	Run string `json:"run"`
	deliveryView
	CreatedAt string `json:"created_at"`
}

func (c deliveriesListCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		list, err := h.Store().Deliveries(ctx, queue.DeliveryFilter{
			Run: c.deliveryFilter.Run, Endpoint: c.Endpoint, State: queue.DeliveryState(c.State), Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		views := []listedDelivery{}
		t := newTable(a.out)
		t.row("RUN", "ENDPOINT", "RECORD", "STATE", "ATTEMPTS", "SINCE", "LAST ERROR")
		for _, d := range list {
			views = append(views, listedDelivery{ID: d.ID, Run: d.Run, deliveryView: deliveryOf(d), CreatedAt: evidence.FormatTime(d.CreatedAt)})
			t.row(d.Run, d.Endpoint+" ("+kindOf(d.Required)+")", string(d.Record), string(d.State), strconv.Itoa(d.Attempts), at(d.CreatedAt), d.LastError)
		}
		if a.JSON {
			return a.printJSON(views)
		}
		return t.flush()
	})
}

// kindOf is the label of a delivery.
func kindOf(required bool) string {
	if required {
		return "required"
	}
	return "best-effort"
}

// reconciledView is the JSON of what a reconciliation did.
type reconciledView struct {
	Added  int `json:"added"`
	Queued int `json:"queued"`
}

type deliveriesReconcileCmd struct {
	deliveryFilter
}

func (deliveriesReconcileCmd) Help() string {
	return `Makes whatever has not arrived due at once, also what was abandoned. With --run, the records that the endpoints are to be told by now
and have never been told of that run are made from its evidence. What has arrived is not sent again. Workers do the sending.

Examples:

    harness deliveries reconcile
    harness deliveries reconcile --endpoint archive
    harness deliveries reconcile --run RUN`
}

func (c deliveriesReconcileCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		done, err := h.Store().ReconcileDeliveries(ctx, queue.DeliveryFilter{Run: c.deliveryFilter.Run, Endpoint: c.Endpoint})
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(reconciledView(done))
		}
		_, err = fmt.Fprintf(a.out, "%d added, %d to be sent again; see `harness deliveries list`\n", done.Added, done.Queued)
		return err
	})
}
