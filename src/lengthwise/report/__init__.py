"""From results to tables, figures and one page that opens anywhere: data, figure and page are three steps."""
